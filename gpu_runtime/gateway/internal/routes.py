"""The internal routes: episodes, as the control plane forwards them. Bodies are the wire's, the key
the relay's.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.episodes.call_views import MAX_CALLS_PER_PAGE
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.gateway.http import (
    cancel_on_disconnect,
    check_relay_key,
    model_response,
    parse_page,
    read_body,
)
from gpu_runtime.refusals import BadRequest
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeBegin,
    EpisodeEnd,
    EpisodesHeartbeat,
    EpisodesRescore,
)
from tinkerscript.wire.errors import ErrorCode
from tinkerscript.wire.training.changes import ConfigUpdate

M = TypeVar("M", bound=BaseModel)
MAX_EPISODES_PER_PAGE = 500  # of one page


class InternalRoutes:
    """The routes of ``/episodes``, ``/config`` and ``/accounting``. ``erase`` erases an episode everywhere in
    this runtime.
    """

    def __init__(
        self, episodes: Episodes, relay_key: str, erase: Callable[[str], Awaitable[None]]
    ) -> None:
        self._episodes, self._relay_key, self._erase = episodes, relay_key, erase

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            Route("/episodes", self.episodes, methods=["GET", "POST"]),
            Route("/episodes/{episode_id}", self.episode, methods=["GET", "DELETE"]),
            Route("/episodes/{episode_id}/end", self.end, methods=["POST"]),
            Route("/episodes/{episode_id}/abandon", self.abandon, methods=["POST"]),
            Route("/episodes/{episode_id}/heartbeat", self.heartbeat, methods=["POST"]),
            Route("/episodes/{episode_id}/calls", self.calls, methods=["GET"]),
            Route("/heartbeats", self.heartbeats, methods=["POST"]),
            Route("/rescore", self.rescore, methods=["POST"]),
            Route("/config", self.config, methods=["PATCH"]),
            Route("/accounting", self.accounting, methods=["GET"]),
        ]

    async def episodes(self, request: Request) -> Response:
        """``POST``: begin, held while it must wait. ``GET``: one page."""
        check_relay_key(request, self._relay_key)
        if request.method == "POST":
            wanted = await _read(request, EpisodeBegin)
            key = request.headers.get("idempotency-key") or None
            begin = self._episodes.begin(
                wanted, begin_key=key, key_id=request.headers.get("x-key-id", "")
            )
            # A client that went away while it was held must not leave an open episode whose key no
            # one has.
            return model_response(await cancel_on_disconnect(request, begin), status=201)
        return model_response(
            await self._episodes.page(
                **parse_page(request, limit=100, maximum=MAX_EPISODES_PER_PAGE)
            )
        )

    async def episode(self, request: Request) -> Response:
        """``GET /episodes/{id}``; ``DELETE``: erase it."""
        check_relay_key(request, self._relay_key)
        if request.method == "DELETE":
            await self._erase(request.path_params["episode_id"])
            return Response(status_code=204)
        return model_response(await self._episodes.view(request.path_params["episode_id"]))

    async def end(self, request: Request) -> Response:
        """``POST /episodes/{id}/end``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodeEnd)
        return model_response(
            await self._episodes.end(request.path_params["episode_id"], body.output)
        )

    async def abandon(self, request: Request) -> Response:
        """``POST /episodes/{id}/abandon``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodeAbandon)
        return model_response(
            await self._episodes.abandon(request.path_params["episode_id"], body.reason)
        )

    async def heartbeat(self, request: Request) -> Response:
        """``POST /episodes/{id}/heartbeat``."""
        check_relay_key(request, self._relay_key)
        return model_response(await self._episodes.heartbeat(request.path_params["episode_id"]))

    async def heartbeats(self, request: Request) -> Response:
        """``POST /heartbeats``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodesHeartbeat)
        return model_response(self._episodes.heartbeats(body.episode_ids))

    async def rescore(self, request: Request) -> Response:
        """``POST /rescore``."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, EpisodesRescore)
        caller = request.headers.get("x-key-id", "")
        return model_response(await self._episodes.batches.rescore(body.rewards, caller))

    async def config(self, request: Request) -> Response:
        """``PATCH /config``: other options from the next step on."""
        check_relay_key(request, self._relay_key)
        body = await _read(request, ConfigUpdate)
        return model_response(
            await self._episodes.config_changes.change(body, request.headers.get("x-key-id", ""))
        )

    async def calls(self, request: Request) -> Response:
        """``GET /episodes/{id}/calls``: one page."""
        check_relay_key(request, self._relay_key)
        page = parse_page(request, limit=50, maximum=MAX_CALLS_PER_PAGE)
        return model_response(await self._episodes.calls(request.path_params["episode_id"], **page))

    async def accounting(self, request: Request) -> Response:
        """``GET /accounting``."""
        check_relay_key(request, self._relay_key)
        return model_response(await self._episodes.accounting())


async def _read(request: Request, model: type[M]) -> M:
    body = await read_body(request)
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        is_reward = field.startswith("output.reward") and first["type"] != "extra_forbidden"
        raise BadRequest(
            f"{field}: {first['msg']}" if field else first["msg"],
            param=field or None,
            code=ErrorCode.INVALID_REWARD if is_reward else ErrorCode.INVALID_REQUEST,
            hint="A reward is a finite number." if is_reward else "",
        ) from None
