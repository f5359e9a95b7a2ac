"""What a session's state means to a client."""

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
        parts.append(f"position {view.queue_position} in the queue")
    return ", ".join(parts)


def not_ready_in_time(
    session_id: str, waited_s: float, busy: SessionNotReady, *, state: str, position: int | None
) -> WaitTimeout:
    """The error of a wait for a session that reached its bound: its state, and its position in the
    queue."""
    queued = f", position {position} in the queue" if position is not None else ""
    return WaitTimeout(
        f"Session {session_id} was not ready in {waited_s:g} s (state: {state}{queued}): "
        f"{busy.message}",
        hint="Try again later, or give TinkerScript a longer begin_timeout_s.",
        code=busy.code,
        request_id=busy.request_id,
        status=busy.status,
        details={**busy.details, "state": state, "queue_position": position},
    )
