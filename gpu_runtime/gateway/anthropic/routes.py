"""The routes of Anthropic's dialect: ``/v1/messages`` with the api_key of one episode, as in
OpenAI's dialects.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.gateway.anthropic.labels import MESSAGES
from gpu_runtime.gateway.anthropic.messages import PING, message, message_events
from gpu_runtime.gateway.anthropic.requests import CountRequest, MessagesRequest, chat_request
from gpu_runtime.gateway.bodies import places_of
from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.http import read_body
from gpu_runtime.generation.chat_prompt import PreparedChat
from tinkerscript.wire.dialects.table import ANTHROPIC


class AnthropicRoutes:
    """Two routes. The model goes by the base model's name or by the session's id."""

    def __init__(self, handler: CompletionHandler) -> None:
        self._handler = handler

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [
            Route(ANTHROPIC.root, self.messages, methods=["POST"]),
            Route(ANTHROPIC.root + "/count_tokens", self.count_tokens, methods=["POST"]),
        ]

    async def messages(self, request: Request) -> Response:
        """``POST /v1/messages``, streaming or not."""
        episode, body = self._handler.authenticate(request), await read_body(request)
        prepared = self._prepare(request, episode, body, MessagesRequest)
        return await self._handler.answer(request, episode, prepared, message, message_events, PING)

    async def count_tokens(self, request: Request) -> Response:
        """``POST /v1/messages/count_tokens``: the ids that the engine would read; nothing is
        sampled or kept.
        """
        episode, body = self._handler.authenticate(request), await read_body(request)
        prompt = await self._handler.prompt(
            episode, self._prepare(request, episode, body, CountRequest)
        )
        return JSONResponse({"input_tokens": len(prompt.ids)})

    def _prepare(
        self, request: Request, episode: OpenEpisode, body: bytes, kind: type[CountRequest]
    ) -> PreparedChat:
        asked, labels = MESSAGES.read(request, body, kind)
        chat = chat_request(asked, places_of(request))
        return self._handler.prepare(request, episode, chat, body, labels)
