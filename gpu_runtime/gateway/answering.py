"""What every dialect's door does with a checked request: identify it, answer it whole or as a stream, let go of it."""

import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpu_runtime.gateway.calls import Calls
from gpu_runtime.gateway.chat_answer import policy_version
from gpu_runtime.gateway.completion_requests import SampledRequest
from gpu_runtime.gateway.episodes import Episodes
from gpu_runtime.gateway.errors import BadRequest, GatewayError, NotFound
from gpu_runtime.gateway.http import episode_key, openai_error, request_id, unless_gone
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.open_episode import OpenEpisode
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.splicing import Prompt
from gpu_runtime.gateway.text_plan import TextPlan
from gpu_runtime.journal_records import CallRecord
from tinkerscript.wire.runtime import Assignment

MOST_AGENT = 128
P = TypeVar("P", ChatPlan, TextPlan)
Whole = Callable[[P, CallRecord], dict[str, Any]]
Chunks = Callable[[P, LiveCall, float], AsyncGenerator[bytes, None]]
ErrorEvent = Callable[[Request, GatewayError], bytes]


def openai_error_event(request: Request, error: GatewayError) -> bytes:
    """How a stream of the OpenAI dialect says that it broke."""
    return b"data: " + openai_error(request, error).body + b"\n\n"


class Answering:
    """``models`` are the names that the session's model goes by: the base model's and the session's id."""

    def __init__(self, episodes: Episodes, calls: Calls, assignment: Assignment) -> None:
        self._episodes, self._calls = episodes, calls
        self.models = [assignment.base_model, assignment.session_id]

    def authenticate(self, request: Request) -> OpenEpisode:
        """The episode of the request's key. Raises BadKey, EpisodeClosed."""
        return self._episodes.authenticate(episode_key(request))

    def identity(self, request: Request, asked: SampledRequest, body: bytes) -> tuple[str, str | None, str | None]:
        """The hash of the body, the request's id and the agent who asks. Raises NotFound for another model."""
        self.check_model(asked.model)
        agent = request.headers.get("x-agent") or (asked.metadata or {}).get("agent")
        if agent is not None and len(agent) > MOST_AGENT:
            raise BadRequest(f"an agent's name has at most {MOST_AGENT} characters", param="X-Agent")
        # The path belongs to the request: the same id and body on another path is another question.
        digest = hashlib.sha256(request.url.path.encode() + b"|" + body).hexdigest()
        return digest, request_id(request), agent

    async def answer(
        self,
        request: Request,
        episode: OpenEpisode,
        plan: P,
        whole: Whole[P],
        chunks: Chunks[P],
        error_event: ErrorEvent = openai_error_event,
    ) -> Response:
        """The answer to ``plan``, in the dialect of ``whole``, or of ``chunks`` if it asks for a stream."""
        plan.check()
        live = self._calls.open(episode, plan)
        handed_over = False
        try:
            if plan.request.stream:
                await unless_gone(request, live.begun())
                handed_over = True
                return self._stream(request, chunks(plan, live, time.time()), live, error_event)
            record = await unless_gone(request, live.finished())
            return JSONResponse(whole(plan, record), headers=_headers(request, policy_version(record)))
        finally:
            if not handed_over:
                live.detach()

    async def prompt(self, episode: OpenEpisode, plan: ChatPlan) -> Prompt:
        """What the engine would read if ``plan`` were asked now. Raises BadRequest."""
        plan.check()
        return await self._calls.compose(episode, plan)

    def check_model(self, name: str) -> None:
        """Raises NotFound for a model that is not this session's."""
        if name not in self.models:
            raise NotFound(
                f"the model {name!r} does not exist here; this session serves {self.models[0]!r}",
                param="model",
                openai_code="model_not_found",
            )

    def _stream(
        self, request: Request, chunks: AsyncGenerator[bytes, None], live: LiveCall, error_event: ErrorEvent
    ) -> Response:
        version = live.deltas[0][1].version if live.deltas else self._episodes.batches.policy_version
        headers = _headers(request, version) | {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        pieces = _until_error(request, chunks, live, error_event)
        return StreamingResponse(pieces, media_type="text/event-stream", headers=headers)


async def _until_error(
    request: Request, chunks: AsyncGenerator[bytes, None], live: LiveCall, error_event: ErrorEvent
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    except GatewayError as error:
        # The status is sent already: the error is the last event, and nothing that looks like an end follows it.
        yield error_event(request, error)
    finally:
        live.detach()


def _headers(request: Request, version: int) -> dict[str, str]:
    return {"X-Policy-Version": str(version), "X-Request-Id": request_id(request) or ""}
