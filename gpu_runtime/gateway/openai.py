"""The OpenAI door: what any OpenAI client calls with the base_url and the api_key of one episode."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gpu_runtime.gateway import completion_requests
from gpu_runtime.gateway.calls import Calls
from gpu_runtime.gateway.chat_answer import chat_chunks, chat_completion, policy_version
from gpu_runtime.gateway.completion_requests import SampledRequest
from gpu_runtime.gateway.episodes import Episodes
from gpu_runtime.gateway.errors import BadRequest, GatewayError, NotFound
from gpu_runtime.gateway.http import bearer, openai_error, read_body, request_id, unless_gone
from gpu_runtime.gateway.internal import call_view
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.open_episode import OpenEpisode
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.text_answer import text_chunks, text_completion
from gpu_runtime.gateway.text_plan import TextPlan
from gpu_runtime.journal_records import CallRecord
from tinkerscript.wire.runtime import Assignment

MOST_AGENT = 128
P = TypeVar("P", ChatPlan, TextPlan)
Whole = Callable[[P, CallRecord], dict[str, Any]]
Chunks = Callable[[P, LiveCall, float], AsyncIterator[bytes]]


class OpenAIDoor:
    """The routes under ``/v1``. The model goes by the base model's name or by the session's id."""

    def __init__(self, episodes: Episodes, calls: Calls, renderer: Renderer, assignment: Assignment) -> None:
        self._episodes, self._calls, self._renderer = episodes, calls, renderer
        self._models = [assignment.base_model, assignment.session_id]
        self._since = int(time.time())

    def routes(self) -> list[Route]:
        """What the app mounts."""
        return [
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model:path}", self.model, methods=["GET"]),
            Route("/v1/episodes/{episode_id}/calls", self.calls, methods=["GET"]),
        ]

    async def chat_completions(self, request: Request) -> Response:
        """``POST /v1/chat/completions``, streaming or not."""
        episode, body = self._episodes.authenticate(bearer(request)), await read_body(request)
        chat = completion_requests.read(body, completion_requests.ChatRequest)
        plan = ChatPlan(chat, self._renderer, *self._identity(request, chat, body))
        return await self._answer(request, episode, plan, chat_completion, chat_chunks)

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``, streaming or not."""
        episode, body = self._episodes.authenticate(bearer(request)), await read_body(request)
        text = completion_requests.read(body, completion_requests.TextRequest)
        plan = TextPlan(text, self._renderer, *self._identity(request, text, body))
        return await self._answer(request, episode, plan, text_completion, text_chunks)

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``."""
        self._episodes.authenticate(bearer(request))
        return JSONResponse({"object": "list", "data": [self._model(name) for name in self._models]})

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/{model}``."""
        self._episodes.authenticate(bearer(request))
        self._check_model(request.path_params["model"])
        return JSONResponse(self._model(request.path_params["model"]))

    async def calls(self, request: Request) -> Response:
        """``GET /v1/episodes/{id}/calls``: every call of the key's own episode with its token ids."""
        episode = self._episodes.authenticate(bearer(request))
        if request.path_params["episode_id"] != episode.id:
            raise NotFound("this key is of another episode", hint=f"Its own episode is {episode.id}.")
        return JSONResponse({"items": [call_view(call) for call in await self._episodes.calls(episode.id)]})

    def _identity(self, request: Request, asked: SampledRequest, body: bytes) -> tuple[str, str | None, str | None]:
        """The hash of the body, the request's id and the agent who asks."""
        self._check_model(asked.model)
        agent = request.headers.get("x-agent") or (asked.metadata or {}).get("agent")
        if agent is not None and len(agent) > MOST_AGENT:
            raise BadRequest(f"an agent's name has at most {MOST_AGENT} characters", param="X-Agent")
        # The path belongs to the request: the same id and body on another path is another question.
        digest = hashlib.sha256(request.url.path.encode() + b"|" + body).hexdigest()
        return digest, request_id(request), agent

    async def _answer(
        self, request: Request, episode: OpenEpisode, plan: P, whole: Whole[P], chunks: Chunks[P]
    ) -> Response:
        plan.check()
        live = self._calls.open(episode, plan)
        handed_over = False
        try:
            if plan.request.stream:
                await unless_gone(request, live.begun())
                handed_over = True
                return self._stream(request, chunks(plan, live, time.time()), live)
            record = await unless_gone(request, live.finished())
            return JSONResponse(whole(plan, record), headers=_headers(request, policy_version(record)))
        finally:
            if not handed_over:
                live.detach()

    def _check_model(self, name: str) -> None:
        if name not in self._models:
            raise NotFound(
                f"the model {name!r} does not exist here; this session serves {self._models[0]!r}",
                param="model",
                openai_code="model_not_found",
            )

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._since,
            "owned_by": "tinkerscript",
            "max_model_len": self._calls.context_length,
            "policy_version": self._episodes.batches.policy_version,
        }

    def _stream(self, request: Request, chunks: AsyncIterator[bytes], live: LiveCall) -> Response:
        version = live.deltas[0][1].version if live.deltas else self._episodes.batches.policy_version
        headers = _headers(request, version) | {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(_until_error(request, chunks, live), media_type="text/event-stream", headers=headers)


async def _until_error(request: Request, chunks: AsyncIterator[bytes], live: LiveCall) -> AsyncIterator[bytes]:
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    except GatewayError as error:
        # The status is sent already: the error is the last event, and no [DONE] follows it.
        yield b"data: " + openai_error(request, error).body + b"\n\n"
    finally:
        live.detach()


def _headers(request: Request, version: int) -> dict[str, str]:
    return {"X-Policy-Version": str(version), "X-Request-Id": request_id(request) or ""}
