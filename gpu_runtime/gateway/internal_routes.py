"""The internal routes: episodes, batches and the session's options, as the control plane forwards
them. Bodies are the wire's, the key the relay's.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.episodes.call_views import MAX_CALLS_PER_PAGE
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.gateway.http import (
    cancel_on_disconnect,
    check_relay_key,
    model_response,
    parse_page,
    read_body,
)
from gpu_runtime.journal.records import CallRecord, EpisodeRecord
from gpu_runtime.refusals import BadRequest, NotFound
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.trajectories.documents import episode_document
from gpu_runtime.trajectories.rows import step_advantages
from gpu_runtime.trajectories.token_texts import TokenTexts
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeBegin,
    EpisodeEnd,
    EpisodesHeartbeat,
    EpisodesRescore,
    EpisodeView,
)
from tinkerscript.wire.errors import ErrorCode
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.training.changes import ConfigUpdate

M = TypeVar("M", bound=BaseModel)
MAX_EPISODES_PER_PAGE = 500  # of one page


class InternalRoutes:
    """The routes of ``/episodes``, ``/batches``, ``/config`` and ``/accounting``. ``erase`` erases
    an episode everywhere in this runtime.
    """

    def __init__(
        self,
        episodes: Episodes,
        renderer: Renderer,
        assignment: Assignment,
        erase: Callable[[str], Awaitable[None]],
    ) -> None:
        self._episodes, self._assignment, self._erase = episodes, assignment, erase
        self._texts = TokenTexts(renderer)

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            self._route("/episodes", self.episodes, "GET", "POST"),
            self._route("/episodes/{episode_id}", self.episode, "GET", "DELETE"),
            self._route("/episodes/{episode_id}/end", self.end, "POST"),
            self._route("/episodes/{episode_id}/abandon", self.abandon, "POST"),
            self._route("/episodes/{episode_id}/heartbeat", self.heartbeat, "POST"),
            self._route("/episodes/{episode_id}/calls", self.calls, "GET"),
            self._route("/episodes/{episode_id}/timelines", self.timelines, "GET"),
            self._route("/batches/{name}", self.batch, "GET"),
            self._route("/heartbeats", self.heartbeats, "POST"),
            self._route("/rescore", self.rescore, "POST"),
            self._route("/config", self.config, "PATCH"),
            self._route("/accounting", self.accounting, "GET"),
        ]

    def _route(
        self, path: str, serve: Callable[[Request], Awaitable[Response]], *methods: str
    ) -> Route:
        """A route for the control plane alone."""

        async def checked(request: Request) -> Response:
            check_relay_key(request, self._assignment.relay_key)
            return await serve(request)

        return Route(path, checked, methods=list(methods))

    async def episodes(self, request: Request) -> Response:
        """``POST``: begin, held while it must wait. ``GET``: one page."""
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
        if request.method == "DELETE":
            await self._erase(request.path_params["episode_id"])
            return Response(status_code=204)
        return model_response(await self._episodes.view(request.path_params["episode_id"]))

    async def end(self, request: Request) -> Response:
        """``POST /episodes/{id}/end``."""
        body = await _read(request, EpisodeEnd)
        return model_response(
            await self._episodes.end(request.path_params["episode_id"], body.output)
        )

    async def abandon(self, request: Request) -> Response:
        """``POST /episodes/{id}/abandon``."""
        body = await _read(request, EpisodeAbandon)
        return model_response(
            await self._episodes.abandon(request.path_params["episode_id"], body.reason)
        )

    async def heartbeat(self, request: Request) -> Response:
        """``POST /episodes/{id}/heartbeat``."""
        return model_response(await self._episodes.heartbeat(request.path_params["episode_id"]))

    async def heartbeats(self, request: Request) -> Response:
        """``POST /heartbeats``."""
        body = await _read(request, EpisodesHeartbeat)
        return model_response(self._episodes.heartbeats(body.episode_ids))

    async def rescore(self, request: Request) -> Response:
        """``POST /rescore``."""
        body = await _read(request, EpisodesRescore)
        caller = request.headers.get("x-key-id", "")
        return model_response(await self._episodes.batches.rescore(body.rewards, caller))

    async def config(self, request: Request) -> Response:
        """``PATCH /config``: other options from the next step on."""
        body = await _read(request, ConfigUpdate)
        return model_response(
            await self._episodes.config_changes.change(body, request.headers.get("x-key-id", ""))
        )

    async def calls(self, request: Request) -> Response:
        """``GET /episodes/{id}/calls``: one page."""
        page = parse_page(request, limit=50, maximum=MAX_CALLS_PER_PAGE)
        return model_response(await self._episodes.calls(request.path_params["episode_id"], **page))

    async def timelines(self, request: Request) -> Response:
        """``GET /episodes/{id}/timelines``: the episode, its whole document, and the advantages of
        its calls. The document is made anew for each request, in a thread.
        """
        episode_id = request.path_params["episode_id"]
        # what is known of an open one alone, such as its warning
        shown = await self._episodes.view(episode_id)
        record, calls = await self._episodes.recorded(episode_id)
        batches, step = self._episodes.batches, record.trained_step
        advantages = None
        if step is not None and (batch := await batches.batch(step)) is not None:
            of_step = await asyncio.to_thread(step_advantages, batch, await batches.config_at(step))
            advantages = of_step.get(record.id)
        body = await asyncio.to_thread(
            self._body, record.view(warning=shown.warning), record, calls, advantages
        )
        return Response(body, media_type="application/json")

    async def batch(self, request: Request) -> Response:
        """``GET /batches/{name}``, streamed as JSON lines, which are made in a thread while they
        are sent. A name is a step's number or what the event of a refusal calls the batch.
        """
        name = request.path_params["name"]
        kept = await self._episodes.batches.kept(name)
        if kept is None:
            raise NotFound(
                f"this session has no batch {name}",
                hint="A step's number, or the batch that a step_refused event names.",
            )
        return StreamingResponse(
            batch_lines(kept, self._assignment), media_type="application/x-ndjson"
        )

    async def accounting(self, request: Request) -> Response:
        """``GET /accounting``."""
        return model_response(await self._episodes.accounting())

    def _body(
        self,
        view: EpisodeView,
        record: EpisodeRecord,
        calls: Sequence[CallRecord],
        advantages: dict[str, float] | None,
    ) -> str:
        body: dict[str, Any] = {
            "episode": view.model_dump(mode="json"),
            "document": episode_document(record, calls, self._texts),
            "advantages": advantages,
        }
        return json.dumps(body)


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
