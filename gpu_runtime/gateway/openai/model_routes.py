"""What OpenAI's clients read of a session with the key of one episode: its model, and the episode's
calls.
"""

import time
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.episodes.call_views import MAX_CALLS_PER_PAGE
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.http import model_response, parse_page
from gpu_runtime.refusals import NotFound


class ModelRoutes:
    """Two routes. ``models`` are the names that the session's one model goes by."""

    def __init__(self, handler: CompletionHandler, models: list[str]) -> None:
        self._handler, self._models, self._since = handler, models, int(time.time())

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model:path}", self.model, methods=["GET"]),
        ]

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``."""
        self._handler.authenticate(request)
        return JSONResponse(_listed([self._model(name) for name in self._models], request))

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/{model}``."""
        self._handler.authenticate(request)
        self._handler.check_model(request.path_params["model"])
        return JSONResponse(self._model(request.path_params["model"]))

    def _model(self, name: str) -> dict[str, Any]:
        """A model in OpenAI's dialect: Unix time, prompt and answer in tokens, policy version."""
        return {
            "id": name,
            "object": "model",
            "created": self._since,
            "owned_by": "tinkerscript",
            "max_model_len": self._handler.calls.context_length,
            "policy_version": self._handler.policy_version(),
        }


class CallRoutes:
    """One route, for the key of any open episode."""

    def __init__(self, handler: CompletionHandler, episodes: Episodes) -> None:
        self._handler, self._episodes = handler, episodes

    def routes(self) -> list[Route]:
        """The route, for the app."""
        return [Route("/v1/episodes/{episode_id}/calls", self.calls, methods=["GET"])]

    async def calls(self, request: Request) -> Response:
        """``GET /v1/episodes/{id}/calls``: one page of the calls of the key's own episode, with
        their token ids.
        """
        episode = self._handler.authenticate(request)
        if request.path_params["episode_id"] != episode.id:
            raise NotFound(
                "this key is of another episode", hint=f"Its own episode is {episode.id}."
            )
        page = parse_page(request, limit=50, maximum=MAX_CALLS_PER_PAGE)
        return model_response(await self._episodes.calls(episode.id, **page))


def _listed(models: list[dict[str, Any]], request: Request) -> dict[str, Any]:
    """The body of ``GET /v1/models``, in Anthropic's form where the request has its version (API,
    "List Models")."""
    if "anthropic-version" not in request.headers:
        return {"object": "list", "data": models}
    data = [
        {
            "type": "model",
            "id": each["id"],
            "display_name": each["id"],
            "created_at": datetime.fromtimestamp(each["created"], tz=UTC).isoformat(),
            "max_input_tokens": each["max_model_len"],
        }
        for each in models
    ]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}
