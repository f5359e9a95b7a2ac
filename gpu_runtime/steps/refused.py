"""What is recorded of a refused step, and how often engine and trainer may differ before the
session ends.
"""

from typing import Any

from gpu_runtime.errors import EngineMismatch, EngineTrainerMismatch, StepRefused
from gpu_runtime.journal.records import refused_name
from gpu_runtime.loop.batching import Batch


class MismatchCount:
    """A mismatch is answered by handing the weights over again. One on tokens sampled after that is
    final.

    Tokens that were sampled before it prove nothing about it: a batch with some of them is refused
    and not counted. So do steps on tokens of older weights, which cannot show a gap: a mismatch
    before them stays on record until a batch of current weights shows none. Two such batches in a
    row that show one are two proofs, whatever lies between.
    """

    def __init__(self) -> None:
        # Unix time in seconds; None while the last proof held
        self._handed_over_at: float | None = None

    def needs_weights(self, batch: Batch, refusal: EngineMismatch) -> bool:
        """Whether the engine is to be given the weights again. Raises EngineTrainerMismatch where
        that did not help.
        """
        if self._handed_over_at is None:
            return True
        if (
            min(call.begun_at for episode in batch.episodes for call in episode.calls)
            > self._handed_over_at
        ):
            raise EngineTrainerMismatch(
                f"step {batch.step}: engine and trainer differ by a KL of {refusal.kl:.2g}, on "
                "tokens sampled after the"
                " engine was given the weights again; one of its kernels is wrong for this model, "
                "or keeps old weights"
            )
        return False

    def handed_over(self, at: float) -> None:
        """The engine was given the weights again for a mismatch, at this Unix time."""
        self._handed_over_at = at

    def agreed(self) -> None:
        """A step was done whose tokens proved that both have the same weights."""
        self._handed_over_at = None


def refusal_event(batch: Batch, refusal: StepRefused) -> dict[str, Any]:
    """The event ``step_refused``. Of a mismatch with ``kl_engine``, which the server's alert of
    that name reads.
    """
    ids = [[episode.record.id for episode in group.episodes] for group in batch.groups]
    data = {
        "name": "step_refused",
        "step": batch.step,
        "reason": str(refusal),
        "hint": refusal.hint,
        "code": refusal.code,
        "batch": refused_name(ids),
        "episodes": [episode_id for group in ids for episode_id in group],
    }
    return data | ({"kl_engine": refusal.kl} if isinstance(refusal, EngineMismatch) else {})
