"""What the gateway refuses, and the status that each refusal gets.

GatewayError
  BadRequest        400  malformed, out of bounds, or an option that is not supported
  BadKey            401  not an episode key of this session, or a wrong relay key
  NotFound          404  no such episode, path or model
  WrongMethod       405
  OutputConflict    409  the episode ended with another output
  EpisodeClosed     410  ended, abandoned or expired: for ever
  TooLarge          413  the body is larger than the gateway reads
  Compressed        415  a body that is compressed, which Codex does for servers of OpenAI's
  EmptyEpisode      422  no LLM call was captured
  NoWebSocket       426  a WebSocket where there is none: Codex asks, and goes on over HTTP
  NotAdmitted       503  a step is running, or as many episodes are begun as can be trained: ask again
  CallFailed        503  the engine was lost or too slow; the call is not part of the episode
  VolumeFull        507  refused before anything was written
"""

from typing import Any

from tinkerscript.wire.errors import COMPRESSED_HINT, ErrorCode

ROOM = 2048  # tokens for an answer, beside a prompt that was too long


class GatewayError(Exception):
    """Base of all. ``param`` names the offending option; ``openai_code`` is the code of the OpenAI
    dialect.
    """

    status = 500
    code = ErrorCode.INTERNAL
    openai_type = "api_error"
    hint = ""
    retry_after_s: int | None = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        param: str | None = None,
        openai_code: str | None = None,
        code: ErrorCode | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.hint = self.hint if hint is None else hint
        self.code = code or self.code
        self.param = param
        self.openai_code = openai_code or self.code.value
        self.details = details or {}

    @property
    def sentences(self) -> str:
        """What is wrong and what to do, for dialects that have one text for both."""
        said = str(self)
        return (
            f"{said}{'' if said.endswith(('.', '?', '!')) else '.'} {self.hint}"
            if self.hint
            else said
        )


class ClientError(GatewayError):
    """The request is at fault, in OpenAI's dialect too."""

    openai_type = "invalid_request_error"


class BadRequest(ClientError):
    status = 400
    code = ErrorCode.INVALID_REQUEST


class BadKey(GatewayError):
    status = 401
    code = ErrorCode.UNAUTHENTICATED
    openai_type = "authentication_error"
    hint = "Use the api_key that begin_episode returned, with the base_url beside it."


class NotFound(ClientError):
    status = 404
    code = ErrorCode.NOT_FOUND


class WrongMethod(ClientError):
    status = 405
    code = ErrorCode.METHOD_NOT_ALLOWED


class OutputConflict(ClientError):
    status = 409
    code = ErrorCode.CONFLICT


class EpisodeClosed(ClientError):
    status = 410
    code = ErrorCode.EPISODE_CLOSED
    hint = "Begin a new episode: a key is good for one episode alone."


class TooLarge(ClientError):
    status = 413
    code = ErrorCode.INVALID_REQUEST


class Compressed(ClientError):
    status = 415
    code = ErrorCode.INVALID_REQUEST
    hint = COMPRESSED_HINT


class EmptyEpisode(ClientError):
    status = 422
    code = ErrorCode.EMPTY_EPISODE
    hint = (
        "No call with its key has arrived. Call the model with the base_url and the api_key that"
        " begin_episode() gave, not with a key of your own, before you end it, or abandon the"
        " episode."
    )


class NoWebSocket(ClientError):
    status = 426
    code = ErrorCode.INVALID_REQUEST
    hint = "Send the request over HTTP, with stream: true for its events."


class PromptTooLong(BadRequest):
    """``tokens`` is a lower bound where the prompt was not encoded."""

    def __init__(self, message: str, *, tokens: int, maximum: int, hint: str, param: str) -> None:
        super().__init__(message, hint=hint, param=param, openai_code="context_length_exceeded")
        self.tokens, self.maximum = tokens, maximum


class NotAdmitted(GatewayError):
    status = 503
    code = ErrorCode.SESSION_NOT_READY
    openai_type = "server_error"
    hint = "Ask again: this passes by itself."
    retry_after_s = 0


class CallFailed(GatewayError):
    status = 503
    code = ErrorCode.SESSION_NOT_READY
    openai_type = "server_error"
    hint = "Send the request again; nothing of it was kept."
    retry_after_s = 1


class VolumeFull(GatewayError):
    status = 507
    code = ErrorCode.DISK_FULL
    openai_type = "server_error"
    hint = "Free space on the volume of the runtime, then send the request again."


def prompt_too_long(
    maximum: int, tokens: int, param: str, *, is_exact: bool = True
) -> PromptTooLong:
    """The refusal of a prompt of so many ``tokens``, or of at least so many, that no answer has
    room after it."""
    counted = f"{tokens} tokens" if is_exact else f"more than {tokens} tokens"
    wanted = -(-(tokens + ROOM) // 1024) * 1024
    return PromptTooLong(
        f"this model's maximum context length is {maximum} tokens, and the prompt is {counted},"
        " which leaves no room for an answer",
        tokens=tokens,
        maximum=maximum,
        hint="Shorten the messages, or create the session with a larger max_context_length: this "
        "prompt and an answer"
        f" need {wanted} or more.",
        param=param,
    )
