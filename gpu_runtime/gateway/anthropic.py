"""The Anthropic door: ``/v1/messages`` with the api_key of one episode, on the same calls as the OpenAI door."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.gateway import completion_requests
from gpu_runtime.gateway.answering import Answering
from gpu_runtime.gateway.anthropic_answer import message, message_events
from gpu_runtime.gateway.anthropic_requests import NEUTRAL, CountRequest, MessagesRequest, chat_request
from gpu_runtime.gateway.errors import GatewayError
from gpu_runtime.gateway.http import anthropic_error, read_body
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.render import Renderer
from tinkerscript.wire.anthropic import PATH


class AnthropicDoor:
    """Two routes. The model goes by the base model's name or by the session's id."""

    def __init__(self, answering: Answering, renderer: Renderer) -> None:
        self._answering, self._renderer = answering, renderer

    def routes(self) -> list[Route]:
        """What the app mounts."""
        return [
            Route(PATH, self.messages, methods=["POST"]),
            Route(PATH + "/count_tokens", self.count_tokens, methods=["POST"]),
        ]

    async def messages(self, request: Request) -> Response:
        """``POST /v1/messages``, streaming or not."""
        episode, body = self._answering.authenticate(request), await read_body(request)
        plan = self._plan(request, body, MessagesRequest)
        return await self._answering.answer(request, episode, plan, message, message_events, _error_event)

    async def count_tokens(self, request: Request) -> Response:
        """``POST /v1/messages/count_tokens``: the ids that the engine would read; nothing is sampled or kept."""
        episode, body = self._answering.authenticate(request), await read_body(request)
        prompt = await self._answering.prompt(episode, self._plan(request, body, CountRequest))
        return JSONResponse({"input_tokens": len(prompt.ids)})

    def _plan(self, request: Request, body: bytes, kind: type[CountRequest]) -> ChatPlan:
        chat = chat_request(completion_requests.read(body, kind, NEUTRAL))
        return ChatPlan(chat, self._renderer, *self._answering.identity(request, chat, body))


def _error_event(request: Request, error: GatewayError) -> bytes:
    return b"event: error\ndata: " + anthropic_error(request, error).body + b"\n\n"
