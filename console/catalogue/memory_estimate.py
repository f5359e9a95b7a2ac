"""How much memory a session will need: arithmetic on model, configuration and devices, before
anything is started.

Bytes per weight, for a model of P weights (Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1):
  engine         the dtype: 4 (float32) or 2 (bfloat16); on GPUs each engine of the session
  trainer        the dtype for weights; in float32 the sum of the gradients, 4, AdamW's moments, 8, and a copy of the
                 weights, 4; under ZeRO 1 and 3 as a step runs two more of the gradients, 8
  reference      the dtype again, when kl_coef is above 0 and all weights are trained; 4 more under bfloat16 where it
                 moves (reference_decay); the dtype once more for the base beside it (kl_base_coef)
  hand-over      the dtype, where a copy passes from the trainer to the engine: under ZeRO 3 and with LoRA; none where
                 that is a file on a disk, which the kernel drops from memory when it needs room (engine over machines)
With LoRA gradients and moments exist for the adapters alone, which are small beside P and counted
as nothing.

Of N ranks each has 1/N of the moments; of the gradients too from ZeRO 2 on; of weights and
reference under ZeRO 3, and there, of several ranks, as much of the weights as DeepSpeed keeps
together at one time. All else each has whole.

Activations of one micro-batch: micro_batch_tokens * hidden * layers * 34 bytes at 2 bytes each
(Korthikanti et al. 2022, arXiv:2205.05198, equation 2, without the attention matrix); with gradient
checkpointing 2 of the 34 remain. Head: float32 logits of the positions that the trainer computes at
one time (gpu_runtime/training/policy.py), and their gradient.
"""

from dataclasses import dataclass
from functools import cached_property

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.device_memory import (
    layers_divide,
    longest_context,
    reference_bytes,
    trainer_kept_bytes,
)

GIB = 1 << 30
# libraries, buffers and code of the runtime, the engine and one rank; measured on a CPU
PROCESS_BYTES = 3 * (GIB // 2)
# Ray's on each of several machines: raylet, agents and the actors beside ranks and engine
RAY_BYTES = GIB // 2
# keys and values of the engine on a CPU (gpu_runtime/engine/vllm_process.py)
ENGINE_CACHE_BYTES = GIB
CACHE_BLOCK = 128  # tokens that the engine on a CPU keeps together
LAYER_BYTES = 34  # per token and hidden unit, at 2 bytes a value
CHECKPOINTED_BYTES = 2
LIVE_WEIGHTS = 1_000_000_000  # DeepSpeed's stage3_max_live_parameters
HEAD_POSITIONS, HEAD_BYTES = 1024, 8  # float32 logits and their gradient


@dataclass(frozen=True)
class ModelShape:
    """What the estimate needs of a model; all but ``parameters`` are 0 where they are not known.

    ``token_values``: numbers that the engine keeps of one token, keys and values of all layers;
    ``keeps_else``: it keeps less of some, or something else (device_memory.py).
    ``heads``, ``key_heads`` and ``intermediate`` say among how many places its layers can be shared
    out.
    """

    parameters: int
    hidden: int = 0
    layers: int = 0
    vocabulary: int = 0
    token_values: int = 0
    heads: int = 0
    key_heads: int = 0
    intermediate: int = 0
    keeps_else: bool = False

    def divides(self, count: int) -> bool:
        """Whether one engine can be spread over ``count`` places; not where that is not known."""
        sizes = {
            "heads": self.heads,
            "key_heads": self.key_heads,
            "intermediate": self.intermediate,
        }
        return all(sizes.values()) and layers_divide(count, **sizes)


@dataclass(frozen=True)
class SessionMemory:
    """Bytes of each part of a session. Those of a rank are of one of ``config.trainer_ranks``."""

    shape: ModelShape
    config: SessionConfig
    on_gpu: bool

    @cached_property
    def is_half(self) -> bool:
        """Whether weights have 2 bytes and not 4."""
        return self.config.dtype == "bfloat16" or (self.config.dtype == "auto" and self.on_gpu)

    @property
    def value(self) -> int:
        """Bytes of one number in the session's dtype."""
        return 2 if self.is_half else 4

    @property
    def model(self) -> int:
        """All weights once."""
        return self.shape.parameters * self.value

    @property
    def trains_all(self) -> bool:
        """Whether the base itself is trained."""
        return self.config.lora_rank == 0

    def _share(self, size: int, stage: int) -> int:
        """A rank's part of what ZeRO cuts from ``stage`` on."""
        return -(-size // self.config.trainer_ranks) if self.config.zero_stage >= stage else size

    @property
    def weights(self) -> int:
        """Of a rank; under ZeRO 3 its part, and what is together at one time."""
        gathered = min(self.shape.parameters, LIVE_WEIGHTS) * self.value
        is_cut = self.config.zero_stage == 3 and self.config.trainer_ranks > 1
        return self._share(self.model, 3) + (gathered if is_cut else 0)

    @property
    def gradients(self) -> int:
        """Of a rank: summed over the rows of a batch in float32, whatever type the weights have."""
        return self._share(self.shape.parameters * 4, 2) if self.trains_all else 0

    @property
    def optimizer(self) -> int:
        """Of a rank: moments, and weights in float32, which DeepSpeed copies also where the model's
        have that type.

        For a step it copies the gradients into the optimizer's order. Under ZeRO 2 they are summed
        in it instead (gpu_runtime/training/optimizer.py); under 1 and 3 the copies are as
        much as 8 bytes, measured on a CPU.
        """
        for_a_step = 0 if self.config.zero_stage == 2 else 8
        return self._share(self.shape.parameters * (12 + for_a_step), 1) if self.trains_all else 0

    @property
    def reference(self) -> int:
        """Of a rank."""
        return reference_bytes(self.config, self.shape.parameters, self.value)

    @property
    def kept(self) -> int:
        """What a rank keeps on its GPU between two steps."""
        return trainer_kept_bytes(self.config, self.shape.parameters, self.value)

    @property
    def activations(self) -> int:
        """Of a rank, at most; with gradient checkpointing the inputs of all layers."""
        kept = CHECKPOINTED_BYTES if self.config.gradient_checkpointing else LAYER_BYTES
        tokens = self.config.micro_batch_tokens
        if self.config.sequence_parallel:
            tokens = -(-tokens // self.config.trainer_ranks)
        return tokens * self.shape.hidden * self.shape.layers * kept * self.value // 2

    @property
    def head(self) -> int:
        """Of a rank, at most."""
        return (
            min(HEAD_POSITIONS, self.config.micro_batch_tokens) * self.shape.vocabulary * HEAD_BYTES
        )

    @property
    def handover(self) -> int:
        """A copy beside the weights of the first rank."""
        return self.model if self.config.zero_stage == 3 or not self.trains_all else 0

    def longest_on_cpu(self) -> int | None:
        """The longest context that an engine's keys and values hold on a CPU; None where that is
        not known.

        Whole blocks, of which vLLM keeps one for itself.
        """
        block_bytes = CACHE_BLOCK * self.shape.token_values * self.value
        if self.on_gpu or not block_bytes or self.shape.keeps_else:
            return None
        return max(0, ENGINE_CACHE_BYTES // block_bytes - 1) * CACHE_BLOCK

    def longest_on_gpus(self, room_bytes: int, spread: int) -> int | None:
        """The longest context of an engine over ``spread`` GPUs, of each of which it may use
        ``room_bytes``; None where that is not known.
        """
        token_bytes = self.shape.token_values * self.value
        if not token_bytes or self.shape.keeps_else:
            return None
        heads = self.shape.key_heads or spread
        return longest_context(room_bytes, self.model, token_bytes, spread=spread, key_heads=heads)

    @property
    def cache(self) -> int:
        """Keys and values: on a CPU as many as the engine always has, on a GPU at least those of
        one context.
        """
        if not self.on_gpu:
            return ENGINE_CACHE_BYTES
        return self.config.max_context_length * self.shape.token_values * self.value
