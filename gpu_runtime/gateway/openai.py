"""The OpenAI door: what any OpenAI client calls with the base_url and the api_key of one episode."""

import time
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.gateway import completion_requests
from gpu_runtime.gateway.answering import Answering
from gpu_runtime.gateway.call_views import MOST_CALLS
from gpu_runtime.gateway.calls import Calls
from gpu_runtime.gateway.chat_answer import chat_chunks, chat_completion
from gpu_runtime.gateway.episodes import Episodes
from gpu_runtime.gateway.errors import NotFound
from gpu_runtime.gateway.http import model_answer, page_of, read_body
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.responses_answer import response, response_events
from gpu_runtime.gateway.responses_requests import NEUTRAL as NEUTRAL_IN_RESPONSES
from gpu_runtime.gateway.responses_requests import ResponsesRequest, chat_request
from gpu_runtime.gateway.text_answer import text_chunks, text_completion
from gpu_runtime.gateway.text_plan import TextPlan


class OpenAIDoor:
    """The routes under ``/v1``. The model goes by the base model's name or by the session's id."""

    def __init__(self, answering: Answering, episodes: Episodes, calls: Calls, renderer: Renderer) -> None:
        self._answering, self._episodes, self._calls, self._renderer = answering, episodes, calls, renderer
        self._since = int(time.time())

    def routes(self) -> list[Route]:
        """What the app mounts."""
        return [
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/responses", self.responses, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model:path}", self.model, methods=["GET"]),
            Route("/v1/episodes/{episode_id}/calls", self.calls, methods=["GET"]),
        ]

    async def chat_completions(self, request: Request) -> Response:
        """``POST /v1/chat/completions``, streaming or not."""
        episode, body = self._answering.authenticate(request), await read_body(request)
        chat = completion_requests.read(body, completion_requests.ChatRequest)
        plan = ChatPlan(chat, self._renderer, *self._answering.identity(request, chat, body))
        return await self._answering.answer(request, episode, plan, chat_completion, chat_chunks)

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``, streaming or not."""
        episode, body = self._answering.authenticate(request), await read_body(request)
        text = completion_requests.read(body, completion_requests.TextRequest)
        plan = TextPlan(text, self._renderer, *self._answering.identity(request, text, body))
        return await self._answering.answer(request, episode, plan, text_completion, text_chunks)

    async def responses(self, request: Request) -> Response:
        """``POST /v1/responses``, streaming or not: a chat completion in the newer dialect."""
        episode, body = self._answering.authenticate(request), await read_body(request)
        asked = completion_requests.read(body, ResponsesRequest, NEUTRAL_IN_RESPONSES)
        chat = chat_request(asked)
        plan = ChatPlan(chat, self._renderer, *self._answering.identity(request, chat, body))
        whole, events = partial(response, asked), partial(response_events, asked)
        return await self._answering.answer(request, episode, plan, whole, events)

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``."""
        self._answering.authenticate(request)
        return JSONResponse({"object": "list", "data": [self._model(name) for name in self._answering.models]})

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/{model}``."""
        self._answering.authenticate(request)
        self._answering.check_model(request.path_params["model"])
        return JSONResponse(self._model(request.path_params["model"]))

    async def calls(self, request: Request) -> Response:
        """``GET /v1/episodes/{id}/calls``: one page of the calls of the key's own episode, with their token ids."""
        episode = self._answering.authenticate(request)
        if request.path_params["episode_id"] != episode.id:
            raise NotFound("this key is of another episode", hint=f"Its own episode is {episode.id}.")
        page = page_of(request, limit=50, most=MOST_CALLS)
        return model_answer(await self._episodes.calls(episode.id, **page))

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._since,
            "owned_by": "tinkerscript",
            "max_model_len": self._calls.context_length,
            "policy_version": self._episodes.batches.policy_version,
        }
