"""The work of one rank: DeepSpeed around the policy, forward/backward over packed rows, step, save,
load, publish.

Every rank runs the same calls in the same order with the same data; each computes its share of
the rows. Runs inside the processes that ``ranks.py`` starts; the rest of the runtime uses the
``TrainerRanks`` of that file.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import deepspeed
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.errors import StepRefused
from gpu_runtime.model_interfaces import AdamParams, Datum, ForwardResult, LossConfig, counted_of
from gpu_runtime.placement import dtype_name
from gpu_runtime.weights.flip import each_unflipped, local_part, weights_digest, weights_flip

from .cpu.onednn_linear import linear_layers_use_onednn
from .lora import (
    PlainWeight,
    adapter_export,
    adapter_weights,
    adapters_add,
    adapters_off,
    handed_over,
    plain_weights,
)
from .model_check import policy_verify
from .models.export import hugging_face_export, spilled
from .models.publishing import WeightPublisher
from .models.routing import Routing, routers_freeze
from .models.stored_names import stored_parts
from .objective.reference import References
from .objective.row_loss import STATISTICS, LoopInputs, row_loss
from .optimizer import GuardedAdamW, adam_set, deepspeed_config, gradients_sum_in_one
from .rank_spec import RankSpec, loading
from .rows.packing import RowKind, pack, tokens_repeated
from .rows.row_pass import RowModel, TokenValues, rows_pass
from .rows.tensors import RowTensors
from .sharding.loading import base_load, policy_load
from .sharding.shards import elements, wholes_drop
from .states.rank_state import RankState
from .states.saved import SavedState


class RankTrainer:
    """One rank of the trainer. ``on_row`` is called after each row of a batch, each piece of a
    state.
    """

    def __init__(self, spec: RankSpec, on_row: Callable[[], None]) -> None:
        self.spec, self.config, self._on_row = spec, spec.config, on_row
        torch.manual_seed(self.config.seed)
        self.device = torch.device(spec.torch_device)
        self.dtype = getattr(torch, dtype_name(self.config, spec.device))
        self._is_sharded = self.config.zero_stage == 3
        policy = policy_load(spec, self.dtype, trained=True)
        if not self._is_sharded:
            policy_verify(policy, self.config, self.device)
        self._size = sum(map(elements, policy.parameters()))  # before adapters are added
        if self.config.lora_rank:
            adapters_add(policy.model, self.config)
        if self.config.router == "frozen":
            routers_freeze(policy.model)
        if spec.device == "cpu":
            linear_layers_use_onednn(policy)
        trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        optimizer = GuardedAdamW(trained, self.config.grad_norm_limit, self.device)
        self.engine, *_ = deepspeed.initialize(
            model=policy, optimizer=optimizer, config=deepspeed_config(self.config, self.dtype)
        )
        gradients_sum_in_one(self.engine.optimizer, self.config)
        if self._is_sharded:  # its modules compute from now on
            policy_verify(policy, self.config, self.device)
        self.optimizer = optimizer
        optimizer.global_norm = self._norm_at_step
        self._state = RankState(self.engine.optimizer, policy.model, spec)
        self.publisher = WeightPublisher(spec, self.dtype)
        self._routing = Routing(policy.model)
        self.references = References(self.config, lambda: base_load(spec, self.dtype, policy))

    def parameters(self) -> int:
        """How many weights the base has."""
        return self._size

    def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """Accumulate the gradient of the sum over the targets of ``data`` of weight * loss; the
        same result on all ranks. ``loss_config``: options of the session as this call has them.
        """
        config = self.config.model_copy(update={"loss": loss_fn, **loss_config})
        # DeepSpeed averages gradients over ranks; the sum over rows is what the formula wants.
        backward = lambda loss: self.engine.backward(loss * self.spec.world_size)  # noqa: E731
        scores = partial(self.engine, with_entropy=True) if config.entropy_coef > 0 else self.engine
        model = self._row_model(scores, backward)

        def loss(row: RowTensors) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
            inputs = LoopInputs.of(
                row,
                reference_K=self._reference_logprobs(row) if config.has_kl_loss else None,
                base_K=None if self.references.base is None else self.references.base(row),
            )
            return partial(row_loss, config, inputs)

        totals = torch.zeros(len(STATISTICS), device=self.device)
        computed, values = 0, TokenValues(data, self.device)
        self._routing.begin()
        self.engine.module.replay.count()
        for passed in rows_pass(model, data, self._packed(data), loss):
            if passed.live:
                totals += passed.told
                computed += len(passed.tree.tokens_N)
                logprobs_K = passed.scores if passed.scores.dim() == 1 else passed.scores[0]
                values.put(passed.tree, logprobs_K)
        ranks = self.spec.world_size
        routed = self._routing.measured(ranks) | self.engine.module.replay.measured(ranks)
        computed_here = torch.tensor([float(computed)], device=self.device)
        if self.spec.world_size > 1:
            dist.all_reduce(totals)
            dist.all_reduce(computed_here)
        found = dict(zip(STATISTICS, totals.tolist(), strict=True))
        free, trained = (max(1.0, found[name]) for name in ("tokens_free", "tokens_trained"))
        means = {name: found[name] / trained for name in ("entropy", "clip_fraction", "kl_before")}
        if config.has_kl_loss:
            means["kl_reference"] = found["kl_reference"] / trained
        means |= {name: found[name] for name in ("loss", "tokens_trained", "tokens_masked")}
        means["tokens_repeated"] = float(
            tokens_repeated(data, self.config.micro_batch_tokens, range(len(data)), self._kind)
        )
        means["kl_engine"] = found["kl_engine"] / free
        means["tokens_computed"] = computed_here.item()
        outputs = tuple({"logprobs": each} for each in values.arrays())
        return ForwardResult(outputs, means | routed)

    def _packed(self, data: Sequence[Datum]) -> list[list[int]]:
        """In the order of the data, in which what shares a prefix stands together."""
        return pack(data, self.config.micro_batch_tokens, range(len(data)), self._kind)

    def _row_model(
        self, scores: Callable[[RowTensors], Tensor], backward: Callable[[Tensor], None] | None
    ) -> RowModel:
        of_rank = self.spec.rank, self.spec.world_size, self.config.sequence_parallel
        return RowModel(self.device, scores, backward, *of_rank, self._kind, self._on_row)

    @property
    def _kind(self) -> RowKind:
        kind: RowKind = self.engine.module.kind
        return kind

    @torch.no_grad()
    def logprobs(self, data: Sequence[Datum], reference: bool = False) -> list[np.ndarray]:
        """``logprobs_N`` of the targets of each datum under the current weights or the reference's,
        0 where none counts.
        """
        values = TokenValues(data, self.device)
        model = self._row_model(self._reference_logprobs if reference else self.engine, None)
        for passed in rows_pass(model, data, self._packed(data), None):
            if passed.live:
                values.put(passed.tree, passed.scores)
        self._leave_device()
        return values.arrays()

    @torch.no_grad()
    def _reference_logprobs(self, row: RowTensors) -> Tensor:
        """``logprobs_K`` under the reference: without one of its own, the model under the
        adapters.
        """
        if self.references.main is not None:
            return self.references.main(row)
        with adapters_off(self.engine.module.model):
            return self.engine(row)

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """Apply the gradient. Raises StepRefused, weights unchanged, unless it is finite."""
        adam_set(self.engine.optimizer.param_groups, params)
        # DeepSpeed clips, which knows the norm of all ranks, and with a state it loads that clip
        vars(self.engine.optimizer)["clip_grad"] = params.grad_clip_norm
        self._step()
        norm = self._norm()
        if math.isfinite(norm) and norm > self.config.grad_norm_limit:
            raise StepRefused(f"the gradient explodes: its norm {norm:g} is above grad_norm_limit")
        # ZeRO 1 and 2 look at the gradient before the optimizer does; ZeRO 3 leaves it to the
        # optimizer.
        if self.optimizer.refused or not self.engine.was_step_applied():
            raise StepRefused(f"the gradient is not finite (norm {norm})")
        self.references.follow(self.engine.module)
        return {"grad_norm": norm}

    def drop_gradient(self) -> None:
        """Clear the accumulated gradient in every buffer that DeepSpeed has for it, by a step that
        is refused.
        """
        self.optimizer.refuse_next = True
        self._step()
        self.optimizer.refuse_next = False

    def flip_weights(self) -> None:
        """Change every weight; a second call puts back each bit."""
        weights = list(self.engine.module.parameters())
        wholes_drop(weights)
        weights_flip(map(local_part, weights))

    def each_unflipped(self, data: Sequence[Datum]) -> dict[str, list[float]]:
        """While the weights are flipped: the log-probabilities of all targets with one weight or
        module as it was.
        """
        weights = dict(self.engine.module.model.named_parameters())

        def score() -> list[float]:
            wholes_drop(weights.values())
            return counted_of(data, self.logprobs(data))

        return dict(
            each_unflipped([(name, local_part(weight)) for name, weight in weights.items()], score)
        )

    def weights_digest(self) -> str:
        """Of the bits of all ranks, the same on each."""
        digest = weights_digest(map(local_part, self.engine.module.parameters()), self.device)
        if self.spec.world_size > 1:
            dist.all_reduce(digest)
        return "".join(f"{int(part) & (2**64 - 1):016x}" for part in digest.tolist())

    def _step(self) -> None:
        self.engine.step()
        self._leave_device()

    def _leave_device(self) -> None:
        if self.spec.shares_device:
            torch.cuda.empty_cache()  # the engine may wake up next and needs the memory

    def _norm(self) -> float:
        return float(self.engine.get_global_grad_norm() or 0.0)

    def _norm_at_step(self) -> float:
        # Inside a step the engine does not have it yet; the optimizer of ZeRO does, before it
        # clips.
        return float(self.engine.optimizer._global_grad_norm or 0.0)  # noqa: SLF001 - as said above

    def publish(self, folder: Path) -> None:
        """Leave the weights for the engine in ``folder`` (models/publishing.py)."""
        model = self.engine.module.model
        self.publisher.publish(folder, list(stored_parts(model, handed_over(model))))

    def export_model(self, folder: Path) -> None:
        """Rank 0 writes a folder that ``AutoModelForCausalLM.from_pretrained`` and vLLM load as it
        is.

        Adapters are merged in it, and beside it stand by themselves: ``adapter``, as peft loads
        them.
        """
        model, base = self.engine.module.model, self.spec.base_model_path
        folder.mkdir(parents=True, exist_ok=True)
        gathered = [self._gathered(plain_weights(model)), self._gathered(adapter_weights(model))]
        try:
            weights, adapter = [spilled(each, folder) for each in gathered]
            if self.spec.rank == 0:
                hugging_face_export(model, weights, base, folder)
                if adapter:
                    rank, alpha = self.config.lora_rank, self.config.lora_alpha
                    adapter_export(model, adapter, rank, alpha, base, folder / "adapter")
        finally:  # also after a failure: the other ranks go on, and so does training
            for each in gathered:
                deque(each, maxlen=0)
            self._barrier()

    def save_state(self, folder: Path) -> None:
        """Weights, optimizer moments and step of every rank."""
        folder.mkdir(parents=True, exist_ok=True)
        self.references.save(folder)
        self._state.save(folder, self._barrier, self._on_row)

    def load_state(
        self, folder: Path, with_optimizer: bool = True, with_gradient: bool = False
    ) -> None:
        """Become what ``save_state`` wrote, also where it was another number of ranks. Raises
        StateRefused.
        """
        taken = with_optimizer, with_gradient
        loading(self.spec, lambda: self._state_load(SavedState(folder), *taken))

    def _state_load(self, saved: SavedState, with_optimizer: bool, with_gradient: bool) -> None:
        # no gradient of the managed loop waits for its step while a state is saved
        self._state.load(saved, self._on_row, with_moments=with_optimizer)
        self.references.load(saved, self.engine.module)

    def _gathered(self, wanted: Iterable[PlainWeight]) -> Iterator[tuple[str, Tensor]]:
        """Each that is wanted, on rank 0 (none elsewhere), one by one where ZeRO 3 scatters it. A
        collective.
        """
        for name, parameters, weight in wanted:
            with deepspeed.zero.GatheredParameters(parameters, enabled=self.config.zero_stage == 3):
                if self.spec.rank == 0:
                    yield name, weight().detach().to("cpu", self.dtype)

    def _barrier(self) -> None:
        """A collective: every rank must take part."""
        if self.spec.world_size > 1:
            dist.barrier()
