"""The routes of OpenAI's dialects, called with the base_url and the api_key of one episode."""

from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.http import read_body
from gpu_runtime.gateway.openai.chat import chat_chunks, chat_completion
from gpu_runtime.gateway.openai.completions import joined_completions, text_chunks, text_completion
from gpu_runtime.gateway.openai.earlier_responses import INSTRUCTIONS, EarlierResponses
from gpu_runtime.gateway.openai.responses import response, response_events
from gpu_runtime.gateway.openai.responses_requests import NEUTRAL, ResponsesRequest, chat_request
from gpu_runtime.generation.calls import Recorder
from gpu_runtime.generation.parsing import parse_request
from gpu_runtime.generation.requests import NEUTRAL as OPENAI_NEUTRAL
from gpu_runtime.generation.requests import ChatRequest, TextRequest
from gpu_runtime.generation.template_options import prepare_chat
from gpu_runtime.generation.text_prompt import PreparedText
from gpu_runtime.rendering.renderer import Renderer


class OpenAIRoutes:
    """The routes under ``/v1`` that sample."""

    def __init__(self, handler: CompletionHandler, recorder: Recorder, renderer: Renderer) -> None:
        self._handler, self._recorder, self._renderer = handler, recorder, renderer

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/responses", self.responses, methods=["POST"]),
        ]

    async def chat_completions(self, request: Request) -> Response:
        """``POST /v1/chat/completions``, streaming or not."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        chat = parse_request(body, ChatRequest, OPENAI_NEUTRAL)
        prepared = prepare_chat(chat, self._renderer.at(episode.begun_at), *self._handler.identity(request, chat, body))
        return await self._handler.answer(request, episode, prepared, chat_completion, chat_chunks)

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``, streaming or not."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        asked = parse_request(body, TextRequest, OPENAI_NEUTRAL)
        digest, name, agent = self._handler.identity(request, asked, body)
        if len(asked.prompts) == 1:
            prepared = PreparedText(asked, self._renderer, digest, name, agent)
            return await self._handler.answer(request, episode, prepared, text_completion, text_chunks)
        calls = [
            PreparedText(asked.of(prompt), self._renderer, digest, name and f"{name}#{number}", agent)
            for number, prompt in enumerate(asked.prompts)
        ]
        return await self._handler.answer_all(request, episode, calls, text_completion, joined_completions)

    async def responses(self, request: Request) -> Response:
        """``POST /v1/responses``, streaming or not: a chat completion in the newer dialect."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        asked = parse_request(body, ResponsesRequest, NEUTRAL)
        earlier = EarlierResponses(await self._recorder.calls(episode) if asked.names_earlier else ())
        chat = chat_request(asked, earlier)
        prepared = prepare_chat(chat, self._renderer.at(episode.begun_at), *self._handler.identity(request, chat, body))
        if asked.instructions is not None:
            prepared = replace(prepared, notes={INSTRUCTIONS: True})
        whole, events = partial(response, asked), partial(response_events, asked)
        return await self._handler.answer(request, episode, prepared, whole, events)
