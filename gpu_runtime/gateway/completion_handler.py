"""What routes of every dialect do with a checked request: identify it, by the names that the
session's model goes by, run the call, respond whole or in a stream.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.gateway.http import cancel_on_disconnect, error_event, request_id
from gpu_runtime.gateway.openai.chat import policy_version
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.calls import Calls
from gpu_runtime.generation.chat_prompt import PreparedChat, prepare_chat
from gpu_runtime.generation.requests import ChatRequest, Identity, SampledRequest
from gpu_runtime.generation.text_prompt import PreparedText
from gpu_runtime.journal.records import CallRecord
from gpu_runtime.refusals import BadRequest, GatewayError, NotFound
from gpu_runtime.rendering.history.splicing import Prompt
from tinkerscript.wire.runtime import Assignment

MAX_AGENT_NAME = 128
PING_S = 10.0  # a stream in a dialect with pings is never silent for longer
P = TypeVar("P", PreparedChat, PreparedText)
T = TypeVar("T")
RenderFull = Callable[[P, CallRecord], dict[str, Any]]
RenderStream = Callable[[P, CallStream, float], AsyncGenerator[bytes, None]]


class ModelNames:
    """The base model's name, the session's id, that of the checkpoint that it serves, and those of
    ``model_names``. A name that is not the model's own says the call's agent, unless the call names
    one.
    """

    def __init__(self, assignment: Assignment) -> None:
        names = assignment.config.model_names
        self._agents = names if isinstance(names, dict) else {}
        self._own = [assignment.base_model, assignment.session_id]
        if assignment.serves is not None:
            self._own.insert(0, assignment.serves.checkpoint_id)
        self.listed = list(dict.fromkeys([*self._own, *self._agents]))
        self._takes_any = names == "any"

    def check(self, name: str) -> None:
        """Raises NotFound for a model that is not this session's."""
        if name not in self.listed and not self._takes_any:
            served = ", ".join(map(repr, [self._own[0], *self._agents]))
            raise NotFound(
                f"the model {name!r} does not exist here; this session serves {served}",
                hint=f"Name that one, or create the session with model_names='any' or {{{name!r}: "
                f"'its agent'}}.",
                param="model",
                openai_code="model_not_found",
            )

    def agent_of(self, name: str) -> str | None:
        """The agent that a call of the model ``name`` is of."""
        return self._agents.get(name, name) if name not in self._own and name else None


class CompletionHandler:
    """``authenticate`` returns the episode of a request; it raises BadKey, EpisodeClosed. ``names``
    are those that the session's model goes by; None takes every name as the model's. ``caller``
    names who sends a request, where callers that know nothing of each other share an episode: an id
    is then of one caller's one body.
    """

    def __init__(
        self,
        authenticate: Callable[[Request], OpenEpisode],
        calls: Calls,
        names: ModelNames | None,
        *,
        policy_version: Callable[[], int] = lambda: 0,
        caller: Callable[[Request], str] | None = None,
    ) -> None:
        self.authenticate, self.calls, self.policy_version = authenticate, calls, policy_version
        self._names, self._caller = names, caller

    def identity(self, request: Request, asked: SampledRequest, body: bytes) -> Identity:
        """What the call of a ``request`` with this ``body`` goes by. Raises NotFound for another
        model.
        """
        self.check_model(asked.model)
        agent = (
            request.headers.get("x-agent")
            or (asked.metadata or {}).get("agent")
            or (self._names.agent_of(asked.model) if self._names else None)
        )
        if agent is not None and len(agent) > MAX_AGENT_NAME:
            raise BadRequest(
                f"an agent's name has at most {MAX_AGENT_NAME} characters", param="X-Agent"
            )
        # The path belongs to the request: the same id and body on another path is another request.
        digest = hashlib.sha256(request.url.path.encode() + b"|" + body).hexdigest()
        name = request_id(request) or request.headers.get("idempotency-key") or None
        # a trace's id, say, which all of its calls have in common
        if name is not None and self._caller is not None:
            name = hashlib.sha256(f"{self._caller(request)}|{digest}|{name}".encode()).hexdigest()
        return Identity(digest, name, agent)

    async def answer(
        self,
        request: Request,
        episode: OpenEpisode,
        prepared: P,
        render_full: RenderFull[P],
        render_stream: RenderStream[P],
        ping: bytes | None = None,
    ) -> Response:
        """The response to ``prepared``: by ``render_full``, or by ``render_stream`` if it asks for
        a stream.

        With ``ping`` a stream begins after PING_S at the latest, and that event is sent as often
        while nothing else is. A failure is then its last event; without one it has a status for as
        long as nothing was sampled.
        """
        prepared.check()
        live = self.calls.open(episode, prepared)
        handed_over = False
        try:
            if prepared.request.stream:
                await cancel_on_disconnect(request, live.begun(PING_S if ping else None))
                handed_over = True
                chunks = render_stream(prepared, live, time.time())
                chunks = chunks if ping is None else _with_pings(chunks, ping)
                return self._stream(request, episode, chunks, live)
            record = await cancel_on_disconnect(request, live.finished())
            return JSONResponse(
                render_full(prepared, record),
                headers=_headers(request, episode, policy_version(record)),
            )
        finally:
            if not handed_over:
                live.detach()

    async def answer_all(
        self,
        request: Request,
        episode: OpenEpisode,
        calls: Sequence[PreparedText],
        render_full: RenderFull[PreparedText],
        join: Callable[[Sequence[dict[str, Any]]], dict[str, Any]],
    ) -> Response:
        """One response to several ``calls``, which run at once; the error of the first that fails
        is that of all.
        """
        for prepared in calls:
            prepared.check()
        opened = []
        try:
            for prepared in calls:
                opened.append(self.calls.open(episode, prepared))
            work = asyncio.gather(*(live.finished() for live in opened))
            records = await cancel_on_disconnect(request, _result(work))
        finally:
            for live in opened:
                live.detach()
        answers = [
            render_full(prepared, record) for prepared, record in zip(calls, records, strict=True)
        ]
        return JSONResponse(
            join(answers), headers=_headers(request, episode, max(map(policy_version, records)))
        )

    async def prompt(self, episode: OpenEpisode, prepared: PreparedChat) -> Prompt:
        """What the engine would read if ``prepared`` were sent now. Raises BadRequest."""
        prepared.check()
        return await self.calls.compose(episode, prepared)

    def prepare(
        self,
        request: Request,
        episode: OpenEpisode,
        chat: ChatRequest,
        body: bytes,
        labels: Mapping[str, Any],
    ) -> PreparedChat:
        """The chat that a ``request`` of any dialect means, with its labels. Raises BadRequest,
        NotFound."""
        renderer = self.calls.renderer.at(episode.begun_at)
        identity = self.identity(request, chat, body)
        return prepare_chat(chat, renderer, identity, labels, self.calls.config)

    def check_model(self, name: str) -> None:
        """Raises NotFound for a model that is not this session's."""
        if self._names is not None:
            self._names.check(name)

    def _stream(
        self,
        request: Request,
        episode: OpenEpisode,
        chunks: AsyncGenerator[bytes, None],
        live: CallStream,
    ) -> Response:
        version = live.deltas[0][1].version if live.deltas else self.policy_version()
        headers = _headers(request, episode, version) | {
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
        }
        pieces = _until_error(request, chunks, live)
        return StreamingResponse(pieces, media_type="text/event-stream", headers=headers)


async def _result(work: Awaitable[T]) -> T:
    return await work


async def _with_pings(
    chunks: AsyncGenerator[bytes, None], ping: bytes
) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        while True:
            following = asyncio.ensure_future(anext(chunks, None))
            try:
                while not (await asyncio.wait({following}, timeout=PING_S))[0]:
                    yield ping
                if (chunk := following.result()) is None:
                    return
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.wait({following})
            yield chunk


async def _until_error(
    request: Request, chunks: AsyncGenerator[bytes, None], live: CallStream
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    except GatewayError as error:
        # The status is sent already: the error is the last event, and nothing that looks like an
        # end follows it.
        yield error_event(request, error)
    finally:
        live.detach()


def _headers(request: Request, episode: OpenEpisode, version: int) -> dict[str, str]:
    headers = {"X-Policy-Version": str(version), "X-Request-Id": request_id(request) or ""}
    return headers | ({"X-Not-Trained": episode.not_trained} if episode.not_trained else {})
