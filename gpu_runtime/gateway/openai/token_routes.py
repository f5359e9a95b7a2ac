"""Text to token ids and back, as vLLM's server does it: for clients that count or cut by themselves
(lm-eval).
"""

from typing import Any, Self

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.http import read_body
from gpu_runtime.gateway.openai.chat_labels import TOKENS
from gpu_runtime.generation.engine_options import StrictOptions, TemplateOptions
from gpu_runtime.generation.parsing import checked
from gpu_runtime.generation.requests import ChatRequest, Tool
from gpu_runtime.generation.template_options import template_variables
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.messages import Message
from gpu_runtime.rendering.renderer import Renderer


class TokenizeRequest(TemplateOptions):
    """The body of ``POST /v1/tokenize``: a text, or messages, which the chat template writes."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = Field(None, min_length=1)
    tools: list[Tool] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("send prompt or messages")
        return self


class DetokenizeRequest(StrictOptions):
    """The body of ``POST /v1/detokenize``."""

    model: str | None = None
    tokens: list[int] = Field(max_length=2**20)


class TokenRoutes:
    """Three routes, for the key of any open episode. Nothing is sampled or kept.

    They are served without ``/v1`` too: vLLM's server has them there, where lm-eval's remote
    tokenizer looks for them.
    """

    def __init__(self, handler: CompletionHandler) -> None:
        self._handler, self._calls, self._renderer = handler, handler.calls, handler.calls.renderer

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        described = {"/tokenizer_info": self.tokenizer_info}
        acting = {"/tokenize": self.tokenize, "/detokenize": self.detokenize}
        return [
            Route(before + path, serve, methods=["GET" if path in described else "POST"])
            for before in ("/v1", "")
            for path, serve in (described | acting).items()
        ]

    async def tokenizer_info(self, request: Request) -> Response:
        """``GET /tokenizer_info``: the chat template and the special tokens, as vLLM's server names
        them.
        """
        self._handler.authenticate(request)
        return JSONResponse(dict(self._renderer.described))

    async def tokenize(self, request: Request) -> Response:
        """``POST /v1/tokenize``: special tokens are added to a text unless it says not to, as in a
        completion.
        """
        asked = await self._read(request, TokenizeRequest)
        renderer = self._renderer.at(self._handler.authenticate(request).begun_at)
        if asked.prompt is not None:
            ids = self._renderer.encode(asked.prompt, special=asked.add_special_tokens is not False)
        else:
            ids = self._renderer.encode(
                _written(asked, renderer), special=asked.add_special_tokens is True
            )
        texts = (
            [self._renderer.token_text(token) for token in ids] if asked.return_token_strs else None
        )
        told = {"count": len(ids), "max_model_len": self._calls.context_length, "tokens": list(ids)}
        return JSONResponse(told | {"token_strs": texts})

    async def detokenize(self, request: Request) -> Response:
        """``POST /v1/detokenize``: special tokens are written out."""
        asked = await self._read(request, DetokenizeRequest)
        if not all(0 <= token < self._renderer.vocabulary for token in asked.tokens):
            raise BadRequest(
                f"token ids are from 0 to {self._renderer.vocabulary - 1}", param="tokens"
            )
        return JSONResponse({"prompt": self._renderer.decode(asked.tokens, special=True)})

    async def _read(self, request: Request, kind: type[Any]) -> Any:
        self._handler.authenticate(request)
        asked, _ = TOKENS.read(request, await read_body(request), kind)
        if asked.model is not None:
            self._handler.check_model(asked.model)
        return asked


def _written(asked: TokenizeRequest, renderer: Renderer) -> str:
    told: dict[str, Any] = {"model": "", "messages": asked.messages, "tools": asked.tools}
    chat = checked(told | {"chat_template_kwargs": asked.chat_template_kwargs}, ChatRequest)
    renderer = renderer.with_variables(template_variables(chat, renderer, {}))
    has_opening = asked.add_generation_prompt is not False
    return renderer.text(chat.normal_messages, chat.normal_tools, generation=has_opening)
