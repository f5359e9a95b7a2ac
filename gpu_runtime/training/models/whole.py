"""A model of all weights as the managed loop trains its own: DeepSpeed around it, on any number of
ranks, also of a base in bfloat16, whose weights the optimizer keeps in float32.

Its gradients are in the buffer that ZeRO 2 gives the optimizer (``gradients_sum_in_one``), of each
rank its part.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from gpu_runtime.model_interfaces import AdamParams, LoraConfig
from gpu_runtime.processes.foreign_peers import foreign_peers_refuse
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rank_process import ranks_meet
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.rows.row_pass import RowModel
from gpu_runtime.training.states.saved import SavedState
from gpu_runtime.training.trainer import RankTrainer

from .state_files import state_verify


class RankedModel:
    """Of one rank; each has to make every call. ``BaseWithModels`` uses of it what a model on one
    process has.
    """

    lora: LoraConfig | None = None
    adapter: str | None = None

    def __init__(self, spec: RankSpec, on_row: Callable[[], None]) -> None:
        ranks_meet(spec)
        # a client's steps have no limit but its own clip
        own = {"lora_rank": 0, "zero_stage": 2, "grad_norm_limit": math.inf}
        config = spec.config.model_copy(update=own)
        self._trainer = _Trainer(replace(spec, config=config), on_row)
        if spec.world_size > 1:
            foreign_peers_refuse()
        weights = self.policy.model.named_parameters()
        self.parameters: dict[str, nn.Parameter] = {
            name: weight for name, weight in weights if weight.requires_grad
        }

    @property
    def policy(self) -> Policy:
        """What computes."""
        policy: Policy = self._trainer.engine.module
        return policy

    def rows(self, *, backward: bool) -> RowModel:
        """How this rank passes its share of the rows."""
        return self._trainer.rows(backward=backward)

    @contextmanager
    def gradient_added(self) -> Iterator[None]:
        """Passes in the block add to the gradient; after an exception it is what it was."""
        before = {group: flat.clone() for group, flat in self._trainer.gradients().items()}
        try:
            yield
        except BaseException:
            self._trainer.gradients_become(before)
            raise

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """Apply and forget the gradient. Raises StepRefused where it is not finite."""
        return self._trainer.optim_step(params)

    def save(self, folder: Path) -> None:
        """The state, and a gradient that waits."""
        self._trainer.save_state(folder)

    def load(self, folder: Path, *, with_optimizer: bool, with_gradient: bool) -> None:
        """Become what ``save`` wrote, on whatever number of ranks."""
        state_verify(folder, self.parameters, self.lora)
        self._trainer.load_state(folder, with_optimizer, with_gradient)

    def close(self) -> None:
        """Let go of what DeepSpeed holds of the model."""
        self._trainer.engine.destroy()


class _Trainer(RankTrainer):
    """One that tells of the gradient in its optimizer, and keeps it with a state."""

    def rows(self, *, backward: bool) -> RowModel:
        """As of the loop's passes."""
        # DeepSpeed averages gradients over ranks; the loss of a call is a sum
        ranks = self.spec.world_size
        total = (lambda loss: self.engine.backward(loss * ranks)) if backward else None
        return self._row_model(self.engine, total)

    def gradients(self) -> dict[int, Tensor]:
        """What this rank has of the gradient that waits, by the number of the optimizer's group;
        none where none does.
        """
        waiting = self.engine.optimizer.averaged_gradients
        return {group: it.flat_partition for group, it in waiting.items() if it is not None}

    def gradients_become(self, wanted: dict[int, Tensor]) -> None:
        """Put a gradient in the place of the one that waits."""
        waiting = self.engine.optimizer.averaged_gradients
        for group in waiting:
            waiting[group] = None
        for group, flat in wanted.items():
            self._gradient_made(group).copy_(flat)

    def save_state(self, folder: Path) -> None:
        """Also with the gradient that waits."""
        folder.mkdir(parents=True, exist_ok=True)
        if waiting := self.gradients():
            self._state.gradient_save(folder, waiting)
        super().save_state(folder)

    def _state_load(self, saved: SavedState, with_optimizer: bool, with_gradient: bool) -> None:
        super()._state_load(saved, with_optimizer, with_gradient)
        self.gradients_become({})
        if with_gradient and saved.has_gradient:
            groups = range(len(self.engine.optimizer.bit16_groups))
            self._state.gradient_load(saved, {each: self._gradient_made(each) for each in groups})

    def _gradient_made(self, group: int) -> Tensor:
        # a pass alone makes it otherwise
        made = self.engine.optimizer._get_compact_grad_partition_buffer(group)  # noqa: SLF001
        flat: Tensor = made.flat_partition
        return flat
