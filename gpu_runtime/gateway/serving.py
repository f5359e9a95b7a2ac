"""A model that is served and not trained: OpenAI's and Anthropic's dialects over one engine.

A call carries a key of the session, or the relay's where the control plane has checked an API key.
"""

import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request

from gpu_runtime.episodes.keys import EpisodeKeys
from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.errors import RuntimeFault
from gpu_runtime.gateway.app import app_of
from gpu_runtime.gateway.completion_handler import CompletionHandler, ModelNames
from gpu_runtime.gateway.dialects import dialect_routes
from gpu_runtime.gateway.http import check_relay_key, episode_key
from gpu_runtime.gateway.openai.model_routes import ModelRoutes
from gpu_runtime.generation.calls import Calls
from gpu_runtime.generation.recorder import ForgottenCalls
from gpu_runtime.interfaces import TokenSource
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.tinker.ids import CALLER_HEADER


class ServedModel:
    """``version`` is the step of the checkpoint, 0 for a base model. ``on_fault`` hears of an
    engine that is lost.
    """

    def __init__(
        self,
        engine: TokenSource,
        renderer: Renderer,
        assignment: Assignment,
        *,
        version: int,
        on_fault: Callable[[RuntimeFault], None],
    ) -> None:
        self._relay_key, self._keys = assignment.relay_key, EpisodeKeys(assignment, time.time)
        self._names, self._version = ModelNames(assignment), version
        recorder = ForgottenCalls(self._call_over)
        self._calls = Calls(recorder, engine, renderer, assignment.config, on_fault=on_fault)
        self._episode = OpenEpisode.endless(assignment.session_id)  # of all calls
        self._last_call_at = time.time()

    @property
    def last_activity_at(self) -> float:
        """Unix time of the end of the last call; now, while one is under way."""
        return time.time() if self._episode.calls else self._last_call_at

    def app(self) -> Starlette:
        """The dialects, and what clients ask of the model."""
        handler = CompletionHandler(
            self._authenticate,
            self._calls,
            self._names,
            policy_version=lambda: self._version,
            caller=_caller,
        )
        models = ModelRoutes(handler, self._names.listed)
        return app_of([*dialect_routes(handler), *models.routes()])

    def _authenticate(self, request: Request) -> OpenEpisode:
        """Raises BadKey, EpisodeClosed."""
        if "x-relay-key" in request.headers:
            check_relay_key(request, self._relay_key)
        else:
            self._keys.episode_of(episode_key(request))
        # no call continues another: a template may write today's date
        self._episode.begun_at = time.time()
        return self._episode

    def _call_over(self) -> None:
        self._last_call_at = time.time()


def _caller(request: Request) -> str:
    """Who sends a request that was let in: the API key that the control plane names, or the
    session's key itself.
    """
    if "x-relay-key" in request.headers:
        return request.headers.get(CALLER_HEADER, "")
    return episode_key(request)
