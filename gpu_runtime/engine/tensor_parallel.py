"""Over how many devices one engine spreads its model, and which part of their memory it takes.

The fewest that it fits, because every layer then waits for all of them. Arithmetic on the model's
folder and the memory of a device, before anything is started. The formula, and what an engine
leaves to a trainer on its device, are in device_memory.py of ``tinkerscript.wire.training``.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.engine.vllm_process import GIB
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import Placement, dtype_name
from tinkerscript.processes.nvml import nvml_open
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.device_memory import (
    SIZES,
    WORK_BYTES,
    engine_room_bytes,
    layers_divide,
    token_values,
    trainer_kept_bytes,
)
from tinkerscript.wire.training.model_refusals import window_reached
from tinkerscript.wire.training.models.quantised import weights_count

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineNeeds:
    """What one engine holds in all, and what its layers can be divided by; ``weight_bytes`` 0: not
    known.

    ``kept_bytes`` is what a trainer's rank keeps on each of its devices, None where they are the
    engine's own.
    """

    weight_bytes: int
    cache_bytes: int = 0  # keys and values of one context
    heads: int = 1
    key_heads: int = 1
    intermediate: int = 1
    kept_bytes: int | None = None

    def divides(self, count: int) -> bool:
        """Whether vLLM can share the layers out among ``count`` devices."""
        return layers_divide(
            count, heads=self.heads, key_heads=self.key_heads, intermediate=self.intermediate
        )

    def device_bytes(self, count: int) -> int:
        """On each of ``count`` devices."""
        return (
            self.weight_bytes // count + self.cache_bytes // min(count, self.key_heads) + WORK_BYTES
        )


@dataclass(frozen=True)
class EngineDevices:
    """``tensor_parallel`` devices of each engine, and the part of their memory that it takes (None:
    the usual one of arguments.py, where sizes are not known)."""

    tensor_parallel: int = 1
    memory_share: float | None = None


def engine_needs(model: Path, config: SessionConfig, *, shared: bool = False) -> EngineNeeds:
    """Of the Hugging Face folder ``model`` on a GPU. A folder that does not say its sizes is left
    to vLLM.
    """
    count = weights_count(model)
    if not count or not (model / "config.json").exists():
        return EngineNeeds(0)
    whole = json.loads((model / "config.json").read_text())
    known = whole | (whole.get("text_config") or {})
    fields = {name: size for name, size in known.items() if type(size) is int}
    value = 2 if dtype_name(config, "cuda") == "bfloat16" else 4
    heads = fields.get("num_attention_heads", 1)
    key_heads = fields.get("num_key_value_heads", heads)
    of_token = token_values(known, has_windows=window_reached(known, 1 << 62) > 0)
    return EngineNeeds(
        count * value,
        of_token.count * value * config.max_context_length,
        heads,
        key_heads,
        fields.get("intermediate_size", 1),
        trainer_kept_bytes(config, count, value) if shared else None,
    )


def engine_devices_plan(
    model: Path, config: SessionConfig, placement: Placement, *, most: int | None = None
) -> EngineDevices:
    """What each engine of ``placement`` has of this machine's devices, at most ``most`` of them.

    Raises PlacementImpossible.
    """
    if not placement.engine_gpus:
        return EngineDevices()
    nvml = nvml_open()
    memory_bytes = nvml.least_memory_bytes() if nvml else None
    devices = len(placement.engine_gpus)
    needs = engine_needs(model, config, shared=placement.shared)
    count = tensor_parallel_choose(needs, devices=most or devices, memory_bytes=memory_bytes)
    if idle := devices - count * len(placement.engines(count)):
        log.warning("%d of %d GPUs have no engine: one engine takes %d", idle, devices, count)
    if memory_bytes is None or not needs.weight_bytes:
        return EngineDevices(count)
    return EngineDevices(count, engine_room_bytes(memory_bytes, needs.kept_bytes) / memory_bytes)


def tensor_parallel_choose(needs: EngineNeeds, *, devices: int, memory_bytes: int | None) -> int:
    """How many of the engine's ``devices``, each with ``memory_bytes`` (None: not known), one
    engine spreads over.

    Raises PlacementImpossible where not even the weights fit, or beside a trainer the weights and
    one context: it would serve until the first step, and not after it.
    """
    if not needs.weight_bytes or memory_bytes is None:
        return 1
    possible = [count for count in SIZES if count <= max(1, devices) and needs.divides(count)]
    usable = engine_room_bytes(memory_bytes, needs.kept_bytes)
    if fitting := next((count for count in possible if needs.device_bytes(count) <= usable), None):
        return fitting
    most = possible[-1]
    context = 0 if needs.kept_bytes is None else needs.cache_bytes // min(most, needs.key_heads)
    # vLLM measures exactly, and says itself what is missing
    if needs.weight_bytes / most + context <= usable:
        return most
    if needs.kept_bytes is not None:
        raise PlacementImpossible(
            f"engine and trainer share GPUs of {memory_bytes / GIB:.1f} GiB. Between two steps the"
            f" trainer keeps {needs.kept_bytes / GIB:.1f} GiB of each, so that an engine may use"
            f" {usable / GIB:.1f} GiB; its weights and one context are"
            f" {(needs.weight_bytes / most + context) / GIB:.1f} GiB there. Set offload_optimizer,"
            " which keeps 12 bytes a weight on the host, or kl_coef to 0, which keeps no reference,"
            " or give the session another GPU"
        )
    raise PlacementImpossible(
        f"the engine's weights are {needs.weight_bytes / GIB:.1f} GiB, "
        f"{needs.weight_bytes / most / GIB:.1f} GiB on"
        f" each of {most} GPUs, of which an engine may use {usable / GIB:.1f} of "
        f"{memory_bytes / GIB:.1f} GiB; it has"
        f" {devices}, and its {needs.heads} heads ({needs.key_heads} of keys) can be shared out "
        f"among {_told(needs)}"
    )


def _told(needs: EngineNeeds) -> str:
    return ", ".join(str(count) for count in SIZES if needs.divides(count))
