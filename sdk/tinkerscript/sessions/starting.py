"""How a session starts: its options, checked before any traffic, and the session itself."""

import contextlib
import difflib
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from tinkerscript.connection.transport import Transport
from tinkerscript.errors import (
    InvalidRequest,
    TinkerScriptError,
    UnknownOption,
)
from tinkerscript.outputs import sentences
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import Budget, SessionCreate, SessionView
from tinkerscript.wire.training.advice import other_ways

CREATE_RETRY_S = 30.0
INTERRUPTED_TIMEOUT_S = 5.0
CREATE_HINT = f"`priority` is a number, `budget` has the fields {', '.join(Budget.model_fields)}."


def session_config(options: Mapping[str, Any]) -> SessionConfig:
    """The checked options of a session. Raises UnknownOption, which names it and lists the known,
    or InvalidRequest.
    """
    known = list(SessionConfig.model_fields)
    unknown = [name for name in options if name not in known]
    if unknown:
        close = [match for name in unknown for match in difflib.get_close_matches(name, known, n=1)]
        meant = f"Did you mean {', '.join(close)}? " if close else ""
        if ways := other_ways(unknown):
            meant = f"{ways} "
        raise UnknownOption(
            f"Unknown option {', '.join(unknown)}.",
            hint=f"{meant}Known options: {', '.join(known)}.",
        )
    if functions := [name for name, value in options.items() if callable(value)]:
        raise InvalidRequest(
            f"{', '.join(functions)} is a function, and no code of yours runs in a runtime.",
            hint=other_ways(f"{name}_fn" for name in functions),
        )
    try:
        return SessionConfig(**options)
    except ValidationError as failure:
        raise InvalidRequest(f"The session cannot start: {sentences(failure)}") from failure


def session_request(
    base_model: str | None,
    session_id: str | None,
    options: Mapping[str, Any],
    *,
    name: str = "",
    priority: int | None = None,
    budget: Budget | Mapping[str, int] | None = None,
) -> SessionCreate | None:
    """What to create, or None to attach. Raises InvalidRequest and UnknownOption."""
    config = session_config(options)
    given: dict[str, Any] = {"name": name or None, "priority": priority, "budget": budget}
    given = {field: value for field, value in given.items() if value is not None}
    if session_id is not None:
        if options or given:
            raise InvalidRequest(
                "A running session keeps its name and options: "
                f"{', '.join([*given, *options])} cannot be given with session_id."
            )
        return None
    if options:
        given["config"] = config
    if not base_model:
        raise InvalidRequest(
            "The session cannot start: there is no base_model.",
            hint='Give one, as in TinkerScript("SmolLM2-135M-Instruct"), or session_id to attach '
            "to a running session.",
        )
    try:
        return SessionCreate(base_model=base_model, **given)
    except ValidationError as failure:
        hint = (
            CREATE_HINT
            if {error["loc"][0] for error in failure.errors()} & {"priority", "budget"}
            else ""
        )
        raise InvalidRequest(
            f"The session cannot start: {sentences(failure)}", hint=hint
        ) from failure


def names_of(session: SessionView) -> list[str | None]:
    """What the base model of a session may have been given as."""
    began = session.started_from
    return [session.base_model, *([began.checkpoint_id, began.tinker_path] if began else [])]


def session_create(transport: Transport, wanted: SessionCreate) -> SessionView:
    """Make the session. Interrupted, as by Ctrl-C, it makes sure that none is left behind that no
    client knows of.
    """
    send = partial(
        transport.request,
        "POST",
        "/v1/sessions",
        body=wanted,
        response=SessionView,
        idempotent_key=uuid.uuid4().hex,
    )
    try:
        return send(retry_timeout_s=min(CREATE_RETRY_S, transport.retry_timeout_s))
    except TinkerScriptError:
        raise
    except BaseException:  # the server may have made it: the same key finds it
        with contextlib.suppress(TinkerScriptError):
            made = send(timeout_s=INTERRUPTED_TIMEOUT_S, retry_timeout_s=0.0)
            path = f"/v1/sessions/{made.id}/stop"
            transport.request("POST", path, timeout_s=INTERRUPTED_TIMEOUT_S, retry_timeout_s=0.0)
        raise
