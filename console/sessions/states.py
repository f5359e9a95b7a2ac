"""The states of a session and the one table of allowed moves.

    queued        -> provisioning, suspended, stopped, cancelled, failed
    provisioning  -> loading, queued, stopping, failed
    loading       -> ready, queued, stopping, failed
    ready         -> suspended, queued, stopping, failed
    suspended     -> queued, stopped
    stopping      -> stopped, failed

The usual way is queued, provisioning, loading, ready, stopping, stopped. A test compares these
lines with MOVES.
"""

from enum import StrEnum

from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.sessions import SessionState as S


class Actor(StrEnum):
    """Who may make a move."""

    USER = "user"
    RUNTIME = "runtime"  # under a live lease
    RECONCILER = "reconciler"


class Desired(StrEnum):
    """What a user, a budget or the reconciler wants of a session; the reconciler brings its state
    to it.
    """

    RUN = "run"
    SUSPEND = "suspend"
    STOP = "stop"


MOVES: dict[tuple[S, S], set[Actor]] = {
    (S.QUEUED, S.PROVISIONING): {Actor.RECONCILER},
    (S.PROVISIONING, S.LOADING): {Actor.RUNTIME},
    (S.LOADING, S.READY): {Actor.RUNTIME},
    # A runtime that died is launched again from its last committed state.
    (S.PROVISIONING, S.QUEUED): {Actor.RECONCILER},
    (S.LOADING, S.QUEUED): {Actor.RECONCILER},
    (S.READY, S.QUEUED): {Actor.RECONCILER},
    # What it starts from is not on the server now; it can be woken once it is.
    (S.QUEUED, S.SUSPENDED): {Actor.RECONCILER},
    # Scale to zero and back.
    (S.READY, S.SUSPENDED): {Actor.RECONCILER},
    (S.SUSPENDED, S.QUEUED): {Actor.USER, Actor.RECONCILER},
    # The end that was asked for. A session with no runtime skips `stopping`.
    (S.PROVISIONING, S.STOPPING): {Actor.RECONCILER},
    (S.LOADING, S.STOPPING): {Actor.RECONCILER},
    (S.READY, S.STOPPING): {Actor.RECONCILER},
    (S.STOPPING, S.STOPPED): {Actor.RECONCILER},
    (S.SUSPENDED, S.STOPPED): {Actor.USER, Actor.RECONCILER},
    (S.QUEUED, S.CANCELLED): {Actor.USER, Actor.RECONCILER},
    (S.QUEUED, S.STOPPED): {Actor.USER, Actor.RECONCILER},  # it had a runtime before
    # The end that was not.
    (S.QUEUED, S.FAILED): {Actor.RECONCILER},
    (S.PROVISIONING, S.FAILED): {Actor.RECONCILER, Actor.RUNTIME},
    (S.LOADING, S.FAILED): {Actor.RECONCILER, Actor.RUNTIME},
    (S.READY, S.FAILED): {Actor.RECONCILER, Actor.RUNTIME},
    (S.STOPPING, S.FAILED): {Actor.RECONCILER, Actor.RUNTIME},
}


# Of a checkpoint that is asked for, and not written yet.
UNWRITTEN = (CheckpointState.REQUESTED, CheckpointState.UPLOADING)
# A session in any other state has no runtime to listen to.
WITH_RUNTIME = {S.PROVISIONING, S.LOADING, S.READY, S.STOPPING}
ENDED = frozenset(state for state in S if state.is_terminal)
GOING = frozenset(S) - ENDED  # asked for by name: of a state that is not among ENDED no index knows


def is_allowed(source: S, target: S, actor: Actor) -> bool:
    """Whether ``actor`` may move a session from ``source`` to ``target``."""
    return actor in MOVES.get((source, target), set())
