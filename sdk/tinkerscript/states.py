"""What a session's state means to a client."""

from typing import TYPE_CHECKING

from .errors import SessionEnded, SessionFailed, SessionNotReady, TinkerScriptError, WaitTimeout
from .wire.errors import ErrorCode
from .wire.sessions import Failure, SessionState, SessionView

if TYPE_CHECKING:
    from .session import Session


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
        parts.append(f"position {view.queue_position} in the queue")
    return ", ".join(parts)


def not_ready_in_time(session: "Session", busy: SessionNotReady) -> WaitTimeout:
    """The error of whoever waited too long for ``session``: its state and its position in the queue."""
    state, position = busy.details.get("state"), busy.details.get("queue_position")
    if state is None:
        try:
            view = session.status()
            state, position = view.state.value, view.queue_position
        except TinkerScriptError:
            state = "unknown"
    queued = f", position {position} in the queue" if position is not None else ""
    return WaitTimeout(
        f"Session {session.id} was not ready in {session.ready_timeout_s:g} s (state: {state}{queued}): {busy.message}",
        hint="Try again later, or give TinkerScript a longer begin_timeout_s.",
        code=busy.code,
        request_id=busy.request_id,
        status=busy.status,
        details={**busy.details, "state": state, "queue_position": position},
    )
