"""The routes of OpenAI's dialects, called with the base_url and the api_key of one episode."""

from dataclasses import replace
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.gateway.bodies import of_thoughts, places_of
from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.http import read_body
from gpu_runtime.gateway.openai.chat import chat_chunks, chat_completion
from gpu_runtime.gateway.openai.chat_labels import CHAT, TEXT
from gpu_runtime.gateway.openai.completions import joined_completions, text_chunks, text_completion
from gpu_runtime.gateway.openai.responses import response, response_events
from gpu_runtime.gateway.openai.responses_labels import RESPONSES
from gpu_runtime.gateway.openai.responses_requests import (
    INSTRUCTIONS,
    CountRequest,
    EarlierResponses,
    ResponsesRequest,
    chat_request,
)
from gpu_runtime.gateway.openai.responses_tools import CLIENT_TOOLS, NAMESPACES
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.requests import ChatRequest, TextRequest
from gpu_runtime.generation.text_prompt import PreparedText

R = TypeVar("R", bound=CountRequest)


class OpenAIRoutes:
    """The routes under ``/v1`` that sample, and the one that counts what a response would read."""

    def __init__(self, handler: CompletionHandler) -> None:
        self._handler = handler

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/responses", self.responses, methods=["POST"]),
            Route("/v1/responses/input_tokens", self.input_tokens, methods=["POST"]),
        ]

    async def chat_completions(self, request: Request) -> Response:
        """``POST /v1/chat/completions``, streaming or not."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        chat, labels = CHAT.read(request, body, ChatRequest)
        of_thoughts(chat.messages, places_of(request))
        prepared = self._handler.prepare(request, episode, chat, body, labels)
        return await self._handler.answer(request, episode, prepared, chat_completion, chat_chunks)

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``, streaming or not."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        asked, labels = TEXT.read(request, body, TextRequest)
        identity = self._handler.identity(request, asked, body)
        renderer = self._handler.calls.renderer
        if len(asked.prompts) == 1:
            prepared = PreparedText(asked, renderer, identity, labels)
            return await self._handler.answer(
                request, episode, prepared, text_completion, text_chunks
            )
        name = identity.request_id
        each = [
            replace(identity, request_id=name and f"{name}#{number}")
            for number in range(len(asked.prompts))
        ]
        calls = [
            PreparedText(asked.of(prompt), renderer, identity, labels)
            for prompt, identity in zip(asked.prompts, each, strict=True)
        ]
        return await self._handler.answer_all(
            request, episode, calls, text_completion, joined_completions
        )

    async def responses(self, request: Request) -> Response:
        """``POST /v1/responses``, streaming or not: a chat completion in the newer dialect."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        asked, prepared = await self._response(request, episode, body, ResponsesRequest)
        notes = dict(prepared.notes)
        if asked.instructions is not None:
            notes[INSTRUCTIONS] = True
        if apart := asked.namespaced:
            notes[NAMESPACES] = apart
        if asked.client_tools:
            notes[CLIENT_TOOLS] = asked.client_tools
        prepared = replace(prepared, notes=notes)
        whole, events = partial(response, asked), partial(response_events, asked)
        return await self._handler.answer(request, episode, prepared, whole, events)

    async def input_tokens(self, request: Request) -> Response:
        """``POST /v1/responses/input_tokens``: the ids that the engine would read; nothing is
        sampled or kept.
        """
        episode, body = self._handler.authenticate(request), await read_body(request)
        _, prepared = await self._response(request, episode, body, CountRequest)
        prompt = await self._handler.prompt(episode, prepared)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": len(prompt.ids)})

    async def _response(
        self, request: Request, episode: OpenEpisode, body: bytes, kind: type[R]
    ) -> tuple[R, PreparedChat]:
        asked, labels = RESPONSES.read(request, body, kind)
        recorder = self._handler.calls.recorder
        earlier = EarlierResponses(await recorder.calls(episode) if asked.names_earlier else ())
        chat = chat_request(asked, earlier, places_of(request))
        return asked, self._handler.prepare(request, episode, chat, body, labels)
