"""How long each phase of a runtime may go without progress before it counts as stuck.

Progress is work that was seen to advance: a packed row was computed, a token sampled, a file grew.
Every deadline is below the control plane's own (``PROGRESS_DEADLINES_S``), which knows no stack: a
stuck runtime sends its stacks.
"""

from enum import StrEnum


class Phase(StrEnum):
    """What a runtime is doing, as far as its deadline depends on it."""

    LOADING = "loading"  # the base model, by engine and trainer
    RESTORING = "restoring"  # a state fetched, journaled batches trained again
    TRAINING = "training"
    # weights from trainer to engine; calls in flight end first, unless they are kept
    HANDOVER = "hand-over"
    SAVING = "saving"  # a checkpoint is written or uploaded
    GENERATION = "generation"  # calls are in the engine, whatever else goes on
    WAITING = "waiting"  # for episodes: the main loop reports progress every second


# Seconds without progress. The longest one bounds how long a session can be silent.
DEADLINES_S: dict[Phase, float] = {
    Phase.LOADING: 840.0,
    Phase.RESTORING: 840.0,
    Phase.TRAINING: 600.0,
    Phase.HANDOVER: 540.0,
    Phase.SAVING: 840.0,
    Phase.GENERATION: 300.0,
    Phase.WAITING: 120.0,
}
