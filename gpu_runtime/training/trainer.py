"""What one rank does: DeepSpeed around the policy, forward/backward over packed rows, step, save, load, hand out.

Every rank runs the same calls in the same order with the same samples; each computes its share of the rows. Runs inside
the processes that ``ranks.py`` starts; the rest of the runtime talks to that file's ``TrainerRanks``.
"""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from torch import Tensor
from transformers import AutoTokenizer, GenerationConfig

from gpu_runtime.errors import StepRefused
from gpu_runtime.interfaces import Sample
from gpu_runtime.weights.ipc import handles_write
from gpu_runtime.weights.loan import WeightLoan
from gpu_runtime.weights.shared import WeightFile

from .linear import linear_layers_use_onednn
from .lora import PlainWeight, adapters_add, adapters_off, plain_weights
from .losses import bounded_tokens, kl_k3, policy_loss, token_scales
from .optimizer import GuardedAdamW, learning_rate
from .packing import TreeRow, entry_advantages, pack, pack_row
from .policy import Policy, RowTensors
from .ranks import RankSpec, dtype_name


class RankTrainer:
    """One rank of the trainer."""

    def __init__(self, spec: RankSpec) -> None:
        self.spec, self.config = spec, spec.config
        torch.manual_seed(self.config.seed)
        self.device = torch.device(spec.device, spec.rank) if spec.device == "cuda" else torch.device("cpu")
        self.dtype = getattr(torch, dtype_name(self.config.dtype, spec.device))
        policy = Policy.load(
            spec.base_model_path,
            self.dtype,
            device=spec.device,
            gradient_checkpointing=self.config.gradient_checkpointing,
        ).to(self.device)
        if self.config.lora_rank:
            adapters_add(policy.model, self.config)
        if spec.device == "cpu":
            linear_layers_use_onednn(policy)
        trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        optimizer = GuardedAdamW(trained, self.config, self.device)
        self.engine, *_ = deepspeed.initialize(model=policy, optimizer=optimizer, config=self._deepspeed_config())
        self.optimizer = optimizer
        optimizer.most_norm = self.config.grad_norm_limit
        optimizer.global_norm = self._norm_at_step
        self.on_row: Callable[[], None] | None = None  # called after each row of a batch
        self.reference: Policy | None = None
        self.loan = WeightLoan()  # rank 0's
        self.handover: WeightFile | None = None  # rank 0's
        self.exported: list[Tensor] = []  # rank 0's, on a GPU: what the engine may be reading
        if self.config.kl_coef > 0 and not self.config.lora_rank:  # LoRA: the policy without its adapters
            reference = Policy.load(spec.base_model_path, self.dtype, device=spec.device)
            self.reference = reference.to(self.device).eval().requires_grad_(False)
            if spec.device == "cpu":
                linear_layers_use_onednn(self.reference)

    def _deepspeed_config(self) -> dict[str, object]:
        # managed_gradient_accumulation off: the caller says when to step, as the primitives need it. The batch
        # sizes only satisfy DeepSpeed's arithmetic; losses are scaled by our own normalisers.
        zero: dict[str, object] = {"stage": self.config.zero_stage}
        if self.config.offload_optimizer:
            zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,
            "gradient_clipping": self.config.grad_clip,
            "zero_optimization": zero,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": self.dtype == torch.bfloat16, "check_grad_overflow": True},
            # The sum over micro-batches: in bf16 it would stop growing after a few hundred of them.
            "data_types": {"grad_accum_dtype": "fp32"},
            "steps_per_print": 2**31,
        }

    def forward_backward(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Accumulate the gradient of the session's loss; metrics are sums over the whole batch, equal on all ranks."""
        lengths_S = [sum(sample.mask_T) for sample in samples]
        scales_S = token_scales(
            self.config.loss, lengths_S, [sample.weight for sample in samples], self.config.max_tokens
        )
        rows = pack(samples, self.config.micro_batch_tokens)
        totals = torch.zeros(5, device=self.device)
        # Each rank takes every world_size-th row; a rank with none left repeats its last one at weight zero, because
        # a sharded model's backward is a meeting that all ranks must attend.
        for first in range(0, len(rows), self.spec.world_size):
            mine = first + self.spec.rank
            live = mine < len(rows)
            row = pack_row(samples, rows[mine if live else first])
            totals += self._row(row, samples, scales_S, live=live)
            if self.on_row is not None:
                self.on_row()
        if self.spec.world_size > 1:
            dist.all_reduce(totals)
        loss, kl, entropy, clipped, tokens = totals.tolist()
        trained = max(1.0, tokens)
        computed = sum(len(pack_row(samples, row).tokens_N) for row in rows)
        return {
            "loss": loss,
            "kl_engine": kl / trained,
            "entropy": entropy / trained,
            "clip_fraction": clipped / trained,
            "tokens_trained": tokens,
            "tokens_computed": float(computed),
        }

    def _row(self, tree: TreeRow, samples: Sequence[Sample], scales_S: list[float], *, live: bool) -> Tensor:
        """One forward and backward; answers [loss, kl, entropy, clipped, tokens] of the row (zeros unless live)."""
        row = RowTensors.of(tree, self.device)
        scale_K = torch.tensor(scales_S, device=self.device)[row.sample_K] * float(live)
        config = self.config
        reference_K = self._reference_logprobs(row) if config.kl_coef > 0 else None
        logprobs_K = self.engine(row)
        advantages_K = torch.tensor(entry_advantages(tree, samples), device=self.device)
        loss_K = policy_loss(config, logprobs_K, row.old_K, advantages_K, row.sample_K)
        if reference_K is not None:
            loss_K = loss_K + config.kl_coef * kl_k3(logprobs_K, reference_K)
        loss = (loss_K * scale_K).sum()
        # DeepSpeed averages gradients over ranks; the sum over rows is what the formula wants.
        self.engine.backward(loss * self.spec.world_size)
        with torch.no_grad():
            outside_K = bounded_tokens(config, logprobs_K, row.old_K, row.sample_K)
            # KL from the engine to the trainer, by k3 on tokens that the engine sampled.
            kl = kl_k3(row.old_K, logprobs_K).sum()
            stats = torch.stack(
                [loss.detach(), kl, -logprobs_K.sum(), outside_K.sum(), logprobs_K.new_tensor(len(loss_K))]
            )
        return stats if live else torch.zeros_like(stats)

    @torch.no_grad()
    def _reference_logprobs(self, row: RowTensors) -> Tensor:
        """``logprobs_K`` under the base model."""
        if self.reference is not None:
            return self.reference(row)
        with adapters_off(self.engine.module.model):
            return self.engine(row)

    def optim_step(self, step: int) -> dict[str, float]:
        """Apply the gradient as step ``step``. Raises StepRefused, weights unchanged, unless it is finite."""
        rate = learning_rate(self.config, step)
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        self._step()
        norm = self._norm()
        if math.isfinite(norm) and norm > self.config.grad_norm_limit:
            raise StepRefused(f"the gradient of step {step} explodes: its norm {norm:g} is above grad_norm_limit")
        # ZeRO 1 and 2 look at the gradient before the optimizer does; ZeRO 3 leaves it to the optimizer.
        if self.optimizer.refused or not self.engine.was_step_applied():
            raise StepRefused(f"the gradient of step {step} is not finite (norm {norm})")
        return {"grad_norm": norm, "learning_rate": rate}

    def drop_gradient(self) -> None:
        """Forget the accumulated gradient in every buffer that DeepSpeed keeps of it, by a step that is refused."""
        self.optimizer.refuse_next = True
        self._step()
        self.optimizer.refuse_next = False

    def _step(self) -> None:
        self.engine.step()
        if self.spec.shares_device:
            torch.cuda.empty_cache()  # the engine wakes up next and needs the room

    def _norm(self) -> float:
        return float(self.engine.get_global_grad_norm() or 0.0)

    def _norm_at_step(self) -> float:
        # Inside a step the engine does not have it yet; the optimizer of ZeRO does, before it clips.
        return float(self.engine.optimizer._global_grad_norm or 0.0)

    def publish(self, folder: Path) -> None:
        """Rank 0 leaves the weights for the engine in ``folder``: Hugging Face names, the engine's dtype.

        They are lent where they lie (``weights/loan.py``; on a GPU ``weights/ipc.py``) if they lie there whole, and
        else written into a file in shared memory (``weights/shared.py``).
        """
        if self.spec.device == "cuda":
            self._publish_on_device(folder)
            return
        weights = list(plain_weights(self.engine.module.model))
        if self._lend(folder, weights):
            return
        if self.spec.rank == 0 and (self.handover is None or self.handover.folder != folder):
            shapes = {name: getattr(whole[0], "ds_shape", whole[0].shape) for name, whole, _ in weights}
            self.handover = WeightFile(folder, shapes, self.dtype)
        for name, whole, weight in weights:
            with deepspeed.zero.GatheredParameters(whole, enabled=self.config.zero_stage == 3):
                if self.handover is not None:
                    self.handover.write(name, weight())
        self._meet()

    def _lend(self, folder: Path, weights: Sequence[PlainWeight]) -> bool:
        """Whether the engine can take the weights from this process's own memory."""
        if self.config.zero_stage == 3 or self.config.lora_rank:
            return False
        lent = torch.ones(1)
        if self.spec.rank == 0:
            lent[0] = self.loan.lend({name: weight().detach() for name, _, weight in weights}, folder)
        if self.spec.world_size > 1:
            dist.broadcast(lent, src=0)
        return bool(lent)

    def _publish_on_device(self, folder: Path) -> None:
        sharded = self.config.zero_stage == 3
        weights: list[tuple[str, Tensor]] = []
        for name, whole, weight in plain_weights(self.engine.module.model):
            with deepspeed.zero.GatheredParameters(whole, enabled=sharded):
                if self.spec.rank == 0:
                    tensor = weight().detach().to(self.dtype)
                    weights.append((name, tensor.clone() if sharded else tensor))
        if self.spec.rank == 0:
            self.exported = handles_write(weights, folder)
        self._meet()

    def export_model(self, folder: Path) -> None:
        """Rank 0 writes a folder that ``AutoModelForCausalLM.from_pretrained`` and vLLM load as it is."""
        weights = self._full_weights()
        if self.spec.rank == 0:
            model = self.engine.module.model
            model.config.use_cache = True
            model.save_pretrained(folder, state_dict=weights, max_shard_size="4GB")
            model.config.use_cache = False
            AutoTokenizer.from_pretrained(self.spec.base_model_path).save_pretrained(folder)
            if model.can_generate():
                GenerationConfig.from_model_config(model.config).save_pretrained(folder)
                _copy_if_there(Path(self.spec.base_model_path), folder, "generation_config.json")
        self._meet()

    def save_state(self, folder: Path) -> None:
        """Weights, optimizer moments and step of every rank."""
        # A frozen base is no state: every runtime of the session loads it from its own folder.
        self.engine.save_checkpoint(str(folder), tag="state", exclude_frozen_parameters=bool(self.config.lora_rank))
        if self.spec.rank == 0:
            (folder / "trainer.json").write_text(json.dumps({"world_size": self.spec.world_size}))
        self._meet()

    def load_state(self, folder: Path) -> None:
        """Become what ``save_state`` wrote. Raises ValueError for a state of another number of ranks."""
        saved = json.loads((folder / "trainer.json").read_text())["world_size"]
        if saved != self.spec.world_size:
            raise ValueError(f"this state was saved by {saved} ranks; start the session with trainer_ranks={saved}")
        self.engine.load_checkpoint(str(folder), tag="state", load_module_strict=not self.config.lora_rank)

    def _full_weights(self) -> dict[str, Tensor]:
        """All weights on rank 0 (empty elsewhere), adapters merged; gathered one by one where ZeRO 3 scatters them."""
        weights: dict[str, Tensor] = {}
        for name, parameters, weight in plain_weights(self.engine.module.model):
            with deepspeed.zero.GatheredParameters(parameters, enabled=self.config.zero_stage == 3):
                if self.spec.rank == 0:
                    weights[name] = weight().detach().to("cpu", self.dtype).clone().contiguous()
        return weights

    def _meet(self) -> None:
        if self.spec.world_size > 1:
            dist.barrier()


def _copy_if_there(source: Path, target: Path, name: str) -> None:
    if (source / name).exists():
        shutil.copy2(source / name, target / name)
