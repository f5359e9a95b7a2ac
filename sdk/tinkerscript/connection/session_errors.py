"""What a session's state means to a client."""

from collections.abc import Mapping
from typing import Any

from tinkerscript.errors import SessionEnded, SessionFailed, SessionNotReady, WaitTimeout
from tinkerscript.wire.errors import ErrorCode
from tinkerscript.wire.sessions import Failure, SessionState, SessionView


def raise_if_over(view: SessionView) -> None:
    """Raises SessionFailed or SessionEnded when the session will never serve again."""
    if view.state is SessionState.FAILED:
        failure = view.failure or Failure(code="unknown", cause="The server gave no cause.")
        raise SessionFailed(
            f"Session {view.id} failed ({failure.code}): {failure.cause}",
            hint=failure.hint,
            code=ErrorCode.SESSION_FAILED.value,
            details={"failure": failure.model_dump()},
        )
    if view.state.is_terminal or view.state is SessionState.STOPPING:
        raise SessionEnded(f"Session {view.id} is {view.state.value}.")


def describe(view: SessionView) -> str:
    """State, phase and queue position in a few words."""
    parts = [f"state {view.state.value}"]
    if view.phase:
        parts.append(view.phase)
    if view.queue_position is not None:
        parts.append(f"position {view.queue_position} in the queue{wait_words(view.queue_wait_s)}")
    return ", ".join(parts)


def wait_words(wait_s: float | None) -> str:
    """What is expected of the wait in the queue, after its position; nothing where the server does not know."""
    if wait_s is None:
        return ""
    minutes = round(wait_s / 60)
    if minutes < 1:
        return ", which is expected to take less than a minute"
    hours, rest = divmod(minutes, 60)
    return f", which is expected to take about {f'{hours} h {rest} min' if hours else f'{minutes} min'}"


def not_ready_in_time(
    session_id: str, waited_s: float, busy: SessionNotReady, *, state: str, queue: Mapping[str, Any]
) -> WaitTimeout:
    """The error of a wait for a session that reached its bound: its state, and what SessionView says of the queue."""
    position = queue["queue_position"]
    queued = f", position {position} in the queue{wait_words(queue['queue_wait_s'])}" if position is not None else ""
    return WaitTimeout(
        f"Session {session_id} was not ready in {waited_s:g} s (state: {state}{queued}): {busy.message}",
        hint="Try again later, or give TinkerScript a longer begin_timeout_s.",
        code=busy.code,
        request_id=busy.request_id,
        status=busy.status,
        details={**busy.details, "state": state, **queue},
    )
