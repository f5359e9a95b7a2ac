"""Adapters as vLLM takes them, by their folders; and for how many of them an engine has room."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tinkerscript.processes import machine_share
from tinkerscript.processes.nvml import nvml_open
from tinkerscript.wire.training.models.mixtures import mixture_of

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest

RANKS = (8, 16, 32, 64, 128, 256, 512)  # for which vLLM has room to be made
# Of the memory of a device the adapters of one batch may have, and of the machine's those that are
# loaded: others are read again from their folders.
PART_AT_ONCE, PART_LOADED = 1 / 32, 1 / 32
MOST_AT_ONCE, MOST_LOADED = 32, 1024
# where the sizes of the model, or of its device, are not known
USUAL_AT_ONCE, USUAL_LOADED = 4, 32


class AdapterFolders:
    """vLLM has an adapter under a number, which stands for its folder for as long as the runtime
    lives.
    """

    def __init__(self) -> None:
        self._numbers, self._ranks = dict[Path, int](), dict[Path, int]()

    def request(self, folder: Path) -> "LoRARequest":
        """What a request for the adapter names."""
        from vllm.lora.request import LoRARequest

        number = self._numbers.setdefault(folder, len(self._numbers) + 1)
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:20]
        return LoRARequest(
            lora_name=name, lora_int_id=number, lora_path=str(folder), is_3d_lora_weight=True
        )

    def rank(self, folder: Path) -> int:
        """The adapter's rank; 0 where its folder does not tell, which vLLM refuses by itself."""
        if (known := self._ranks.get(folder)) is None:
            try:
                known = int(json.loads((folder / "adapter_config.json").read_text())["r"])
            except (OSError, ValueError, KeyError, TypeError):
                return 0
            self._ranks[folder] = known
        return known


def room_rank(rank: int) -> int:
    """The smallest rank that vLLM makes room for and that holds ``rank``."""
    return next((each for each in RANKS if each >= rank), RANKS[-1])


def adapters_room(model: Path, rank: int, device: str) -> tuple[int, int]:
    """How many adapters of ``rank`` fit one batch, and memory beside it. Both are there whole, in
    the model's type (taken as 4 bytes on a CPU and 2 on a GPU), whatever the rank of their own.
    """
    size_bytes = rank * _numbers_of_rank(model) * (4 if device == "cpu" else 2)
    machine_bytes = machine_share.memory_bytes()
    nvml = nvml_open() if device != "cpu" else None
    device_bytes = machine_bytes if device == "cpu" else nvml and nvml.least_memory_bytes()
    if not size_bytes or not device_bytes:
        return USUAL_AT_ONCE, USUAL_LOADED
    at_once = max(2, min(MOST_AT_ONCE, int(device_bytes * PART_AT_ONCE) // size_bytes))
    loaded = min(MOST_LOADED, int(machine_bytes * PART_LOADED) // size_bytes)
    return at_once, max(at_once, loaded)


def _numbers_of_rank(model: Path) -> int:
    """How many numbers an adapter on every linear layer has for each of its ranks: the inputs and
    outputs of all; 0 where the folder does not tell.
    """
    try:
        whole = json.loads((model / "config.json").read_text())
    except (OSError, ValueError):
        return 0
    known = whole | (whole.get("text_config") or {})

    def size(name: str, default: int = 0) -> int:
        value = known.get(name)
        return value if type(value) is int else default

    hidden, heads = size("hidden_size"), size("num_attention_heads")
    layers, inner = size("num_hidden_layers"), size("intermediate_size")
    if not (hidden and heads and layers and inner):
        return 0
    queries = heads * size("head_dim", hidden // heads)
    keys = queries * size("num_key_value_heads", heads) // heads
    attention = 2 * (hidden + queries) + 2 * (hidden + keys)
    mlp = 3 * (hidden + inner)
    if (mixture := mixture_of(model)) is not None:  # each expert has a part of its own
        mlp += mixture.count * 3 * (hidden + size("moe_intermediate_size", inner))
    return layers * (attention + mlp) + hidden + size("vocab_size")
