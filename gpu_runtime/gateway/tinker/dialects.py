"""OpenAI's and Anthropic's dialects over the samplers of a Tinker session: what is sampled is not
kept and not trained.

The control plane finds the sampling session that the body's ``model`` names, checks whose it is,
and passes the request on under the relay key with that session's id in a header. What follows is
the dialect code that episodes use.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.errors import EngineDead, ModelUnsupported, RuntimeFault
from gpu_runtime.events import Events
from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.dialects import dialect_routes
from gpu_runtime.gateway.http import check_relay_key
from gpu_runtime.gateway.tinker.checkpoints.snapshots import snapshot_held
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.samples.sampling import STALL_S, Sampled
from gpu_runtime.generation.calls import Calls
from gpu_runtime.generation.recorder import ForgottenCalls
from gpu_runtime.interfaces import Delta, SamplerEngine, SamplingOptions
from gpu_runtime.refusals import BadRequest, NotFound
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.tinker.ids import CALLER_HEADER, SAMPLER_HEADER

MAX_SAMPLERS = 256  # whose routes are kept; those of another one are made anew


@dataclass(frozen=True)
class CallDone:
    """A call in one of the dialects is over, of which so many tokens were made."""

    sampler_id: str
    prompt_tokens: int
    tokens: int
    seconds: float


class DialectRoutes:
    """``renderer_load`` reads the base model's tokenizer and template, once, when the first request
    comes: Tinker clients need neither. It raises OSError, ModelUnsupported. ``sampler_find`` raises
    UserMistake.
    """

    def __init__(
        self,
        engine: SamplerEngine,
        sampler_find: Callable[[str], Awaitable[Sampled]],
        renderer_load: Callable[[], Renderer],
        config: SessionConfig,
        *,
        relay_key: str,
        events: Events,
        on_fault: Callable[[RuntimeFault], None],
    ) -> None:
        self._engine, self._sampler_find, self._renderer_load = engine, sampler_find, renderer_load
        self._config, self._relay_key, self._on_fault = config, relay_key, on_fault
        self._events = events
        self._renderer: Renderer | None = None
        self._loading = asyncio.Lock()
        self._by_sampler: OrderedDict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = (
            OrderedDict()
        )
        self.last_activity_at = time.time()

    def routes(self) -> list[Route]:
        """For the app: which paths there are is known once a sampler has its routes."""
        return [Route("/{path:path}", self._serve, methods=["POST"])]

    async def _serve(self, request: Request) -> Response:
        check_relay_key(request, self._relay_key)
        sampler_id = request.headers.get(SAMPLER_HEADER, "")
        try:
            folder = (await self._sampler_find(sampler_id)).folder
        except UserMistake as mistake:
            raise NotFound(str(mistake), param="model", openai_code="model_not_found") from None
        now = f"{sampler_id} {folder}"  # an in-flight sampler moves to another folder
        if (of_sampler := self._by_sampler.get(now)) is None:
            of_sampler = self._by_sampler[now] = self._make(
                sampler_id, folder, await self._rendering()
            )
            if len(self._by_sampler) > MAX_SAMPLERS:
                self._by_sampler.popitem(last=False)
        self._by_sampler.move_to_end(now)
        self.last_activity_at = time.time()
        if (serve := of_sampler.get(request.url.path)) is None:
            raise NotFound(f"POST {request.url.path}: there is no such call of a model")
        return await serve(request)

    def _make(
        self, sampler_id: str, folder: Path | None, renderer: Renderer
    ) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """The dialects over one sampler, by path."""
        recorder = ForgottenCalls(self._call_over)
        source = SamplerSource(
            self._engine, folder, lambda *call: self._events.publish(CallDone(sampler_id, *call))
        )
        calls = Calls(recorder, source, renderer, self._config, on_fault=self._on_fault)
        episode = OpenEpisode.endless(sampler_id)  # of all calls of the sampler

        def authenticate(_: Request) -> OpenEpisode:
            # no call continues another: a template may write today's date
            episode.begun_at = time.time()
            return episode

        handler = CompletionHandler(
            authenticate, calls, None, caller=lambda sent: sent.headers.get(CALLER_HEADER, "")
        )
        return {
            route.path: route.endpoint
            for route in dialect_routes(handler)
            if "POST" in (route.methods or ())
        }

    def _call_over(self) -> None:
        self.last_activity_at = time.time()

    async def _rendering(self) -> Renderer:
        async with self._loading:
            if self._renderer is None:
                try:
                    self._renderer = await asyncio.to_thread(self._renderer_load)
                except (OSError, ModelUnsupported) as error:
                    why = f"this base model's text cannot be written or read: {error}"
                    raise BadRequest(why, param="model") from error
            return self._renderer


@dataclass(frozen=True)
class SamplerSource:
    """interfaces.TokenSource: an adapter of the engine, one set of weights, or its base model. No
    step pauses it.
    """

    engine: SamplerEngine
    folder: Path | None
    on_done: Callable[[int, int, float], None] = lambda *call: None
    stall_s: float = STALL_S  # an engine that makes no token of a call for so long is dead

    @property
    def context_length(self) -> int:
        return self.engine.context_length

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        stream = self.engine.generate(request_id, prompt_ids, options, self.folder)
        began, tokens = time.monotonic(), 0
        with snapshot_held(self.folder):
            async with aclosing(stream):
                try:
                    while True:
                        try:
                            async with asyncio.timeout(self.stall_s):
                                delta = await anext(stream)
                        except TimeoutError as error:
                            raise EngineDead(
                                f"the engine made no token for {self.stall_s:.0f} s"
                            ) from error
                        except StopAsyncIteration:
                            return
                        tokens += len(delta.token_ids_T)
                        yield delta
                finally:  # also of a call whose client has gone: what was made was made
                    self.on_done(len(prompt_ids), tokens, time.monotonic() - began)
