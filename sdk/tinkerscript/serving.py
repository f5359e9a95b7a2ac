"""A model that the server serves and does not train: an address and a key for any OpenAI or
Anthropic client.
"""

import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from .connection.connecting import connect
from .connection.transport import Transport
from .downloads.checkpoints import TunedModel
from .errors import InvalidRequest, TinkerScriptError
from .outputs import sentences
from .sessions.session import Session
from .sessions.starting import INTERRUPTED_TIMEOUT_S
from .wire.checkpoints import CheckpointView
from .wire.serving import ServingCreate, ServingEndpoint, ServingKeyCreate
from .wire.sessions import Budget, SessionView

if TYPE_CHECKING:
    from openai import OpenAI

Model = str | TunedModel | CheckpointView


class ServedModel:
    """A model that is being served; unpacks as ``base_url, api_key``. As a context manager it ends
    what it started.

    ``id`` is the session's, ``model`` what calls name, ``anthropic_base_url`` for Anthropic's
    clients.
    """

    def __init__(self, transport: Transport, endpoint: ServingEndpoint) -> None:
        self.id, self.model, self.expires_at = (
            endpoint.session_id,
            endpoint.model,
            endpoint.expires_at,
        )
        self.base_url, self.anthropic_base_url = endpoint.base_url, endpoint.anthropic_base_url
        self.api_key = endpoint.api_key
        self._transport, self._session = transport, Session(transport, endpoint.session_id)

    def __iter__(self) -> Iterator[str]:
        yield self.base_url
        yield self.api_key

    def __enter__(self) -> "ServedModel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.stop()
            else:
                _stop_after_error(self._transport, self.id)
        finally:
            self.close()

    def openai(self, **options: Any) -> "OpenAI":
        """An ``openai.OpenAI`` client for it; ``options`` are that client's."""
        import openai

        return openai.OpenAI(base_url=self.base_url, api_key=self.api_key, **options)

    def status(self) -> SessionView:
        """How its session stands now: suspended after ``idle_suspend_s``, it starts again at the
        next call.
        """
        return self._session.status()

    def wait_ready(self, timeout_s: float = 900.0) -> SessionView:
        """Wait until it answers calls. Raises SessionFailed, SessionEnded, WaitTimeout."""
        return self._session.wait_ready(timeout_s)

    def stop(self) -> SessionView:
        """End it; its key is of no use from then on."""
        return self._session.stop()

    def close(self) -> None:
        """Close the connection and leave the model served."""
        self._transport.close()


def serve(
    model: Model,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    name: str = "",
    wait_timeout_s: float | None = 900.0,
    expires_in_days: int = 30,
    budget: Budget | Mapping[str, int] | None = None,
    **options: Any,
) -> ServedModel:
    """Serve a base model, or a ``model`` checkpoint by its id or as download_tuned_model() returned
    it.

    Returns when it answers calls, or at once with ``wait_timeout_s=None``. ``options`` are
    max_context_length, max_tokens, temperature, model_names, idle_suspend_s and priority. Raises
    InvalidRequest, NotFound, UnknownBaseModel, AuthenticationError, SessionFailed,
    ServerUnreachable, IncompatibleServer, WaitTimeout.

    Example::

        with tinkerscript.serve("ckp_5d0c2b9e81f34a67") as served:
            answer = served.openai().chat.completions.create(model=served.model, messages=[...])
    """
    wanted, key = _wanted(model, name=name, budget=budget or {}, **options), _key(expires_in_days)
    transport = connect(base_url, api_key)
    try:
        made = transport.request(
            "POST",
            "/v1/serving",
            body=wanted,
            response=SessionView,
        )
        try:
            if wait_timeout_s is not None:
                Session(transport, made.id).wait_ready(wait_timeout_s)
            return attach(transport, made.id, key)
        except BaseException:
            _stop_after_error(transport, made.id)
            raise
    except BaseException:
        transport.close()
        raise


def attach(transport: Transport, session_id: str, key: ServingKeyCreate) -> ServedModel:
    """A session that serves a model already, with a new key. Raises NotFound, Conflict for one that
    trains.
    """
    path = f"/v1/sessions/{session_id}/serving-keys"
    return ServedModel(
        transport, transport.request("POST", path, body=key, response=ServingEndpoint)
    )


def _stop_after_error(transport: Transport, session_id: str) -> None:
    """End what is served; a server that is away neither hides the error nor holds it up: its caller
    waits for it.
    """
    transport.retry_timeout_s = INTERRUPTED_TIMEOUT_S
    with contextlib.suppress(TinkerScriptError):
        Session(transport, session_id).stop()


def _key(days: int) -> ServingKeyCreate:
    try:
        return ServingKeyCreate(expires_in_days=days)
    except ValidationError as failure:
        raise InvalidRequest(f"The key cannot be made: {sentences(failure)}") from failure


def _wanted(model: Model, **fields: Any) -> ServingCreate:
    if isinstance(model, TunedModel):
        model = model.checkpoint_id
    if isinstance(model, CheckpointView):
        model = model.id
    try:
        return ServingCreate(model=model, **fields)
    except ValidationError as failure:
        hint = (
            f"Options: {', '.join(name for name in ServingCreate.model_fields if name != 'model')}."
        )
        raise InvalidRequest(
            f"The model cannot be served: {sentences(failure)}", hint=hint
        ) from failure
