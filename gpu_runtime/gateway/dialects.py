"""The dialects in which a model is called, for whatever runtime serves it."""

from starlette.routing import Route

from gpu_runtime.gateway.anthropic.routes import AnthropicRoutes
from gpu_runtime.gateway.completion_handler import CompletionHandler
from gpu_runtime.gateway.openai.routes import OpenAIRoutes
from gpu_runtime.gateway.openai.token_routes import TokenRoutes


def dialect_routes(handler: CompletionHandler) -> list[Route]:
    """The routes of every dialect over ``handler``."""
    return [
        *OpenAIRoutes(handler).routes(),
        *TokenRoutes(handler).routes(),
        *AnthropicRoutes(handler).routes(),
    ]
