"""The internal door: episodes, as the control plane forwards them. Bodies are the wire's; the key is the relay key."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.gateway.call_views import MOST_CALLS
from gpu_runtime.gateway.episodes import Episodes
from gpu_runtime.gateway.errors import BadRequest
from gpu_runtime.gateway.http import check_relay_key, model_answer, page_of, read_body, unless_gone
from tinkerscript.wire.episodes import EpisodeAbandon, EpisodeBegin, EpisodeEnd
from tinkerscript.wire.errors import ErrorCode

M = TypeVar("M", bound=BaseModel)
MOST_EPISODES = 500  # of one page


class InternalDoor:
    """The routes of ``/episodes`` and ``/accounting``."""

    def __init__(self, episodes: Episodes, relay_key: str) -> None:
        self._episodes, self._relay_key = episodes, relay_key

    def routes(self) -> list[Route]:
        """What the app mounts."""
        return [
            Route("/episodes", self.episodes, methods=["GET", "POST"]),
            Route("/episodes/{episode_id}", self.episode, methods=["GET"]),
            Route("/episodes/{episode_id}/end", self.end, methods=["POST"]),
            Route("/episodes/{episode_id}/abandon", self.abandon, methods=["POST"]),
            Route("/episodes/{episode_id}/heartbeat", self.heartbeat, methods=["POST"]),
            Route("/episodes/{episode_id}/calls", self.calls, methods=["GET"]),
            Route("/accounting", self.accounting, methods=["GET"]),
        ]

    async def episodes(self, request: Request) -> Response:
        """``POST``: begin, held while it must wait. ``GET``: one page."""
        check_relay_key(request, self._relay_key)
        if request.method == "POST":
            wanted = await _read(request, EpisodeBegin)
            key = request.headers.get("idempotency-key") or None
            begin = self._episodes.begin(wanted, begin_key=key, key_id=request.headers.get("x-key-id", ""))
            # A client that went away while it was held must not leave an open episode that nobody has.
            return model_answer(await unless_gone(request, begin), status=201)
        return model_answer(await self._episodes.page(**page_of(request, limit=100, most=MOST_EPISODES)))

    async def episode(self, request: Request) -> Response:
        """``GET /episodes/{id}``."""
        check_relay_key(request, self._relay_key)
        return model_answer(await self._episodes.view(request.path_params["episode_id"]))

    async def end(self, request: Request) -> Response:
        """``POST /episodes/{id}/end``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodeEnd)
        return model_answer(await self._episodes.end(request.path_params["episode_id"], body.output))

    async def abandon(self, request: Request) -> Response:
        """``POST /episodes/{id}/abandon``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodeAbandon)
        return model_answer(await self._episodes.abandon(request.path_params["episode_id"], body.reason))

    async def heartbeat(self, request: Request) -> Response:
        """``POST /episodes/{id}/heartbeat``."""
        check_relay_key(request, self._relay_key)
        return model_answer(await self._episodes.heartbeat(request.path_params["episode_id"]))

    async def calls(self, request: Request) -> Response:
        """``GET /episodes/{id}/calls``: one page."""
        check_relay_key(request, self._relay_key)
        page = page_of(request, limit=50, most=MOST_CALLS)
        return model_answer(await self._episodes.calls(request.path_params["episode_id"], **page))

    async def accounting(self, request: Request) -> Response:
        """``GET /accounting``."""
        check_relay_key(request, self._relay_key)
        return model_answer(await self._episodes.accounting())


async def _read(request: Request, model: type[M]) -> M:
    body = await read_body(request)
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        is_reward = place.startswith("output.reward") and first["type"] != "extra_forbidden"
        raise BadRequest(
            f"{place}: {first['msg']}" if place else first["msg"],
            param=place or None,
            code=ErrorCode.INVALID_REWARD if is_reward else ErrorCode.INVALID_REQUEST,
            hint="A reward is a finite number." if is_reward else "",
        ) from None
