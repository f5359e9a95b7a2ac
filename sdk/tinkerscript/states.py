"""What a session's state means to a client."""

from .errors import SessionEnded, SessionFailed
from .wire.errors import ErrorCode
from .wire.sessions import Failure, SessionState, SessionView


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
