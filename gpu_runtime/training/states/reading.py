"""The files of a state as data: a pickle that names anything but what DeepSpeed 0.19 saves is not
run, but refused.

A state comes from the object store. Who could write there, or speak there for a runtime, would run
as this process otherwise: unpickling calls whatever the file names.
"""

import pickle
from pathlib import Path
from typing import Any

import torch
from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine
from deepspeed.runtime.fp16.loss_scaler import LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address
from torch.serialization import safe_globals

# Beside tensors and Python's own values: the stage, where parts of parameters lie, the (constant)
# scale of the loss.
SAVED = [ZeroStageEnum, fragment_address, LossScaler]


def _stage(named: type, member: str) -> Any:
    """What Python before 3.11.4 pickles an enum by, as getattr: here of the stage alone."""
    if named is not ZeroStageEnum:
        raise pickle.UnpicklingError(f"GLOBAL getattr of {named!r}")
    members: Any = ZeroStageEnum
    return members[member]


class StateRefused(ValueError):
    """A file of a state is none that this trainer has written."""


def state_load(path: str | Path, **options: Any) -> Any:
    """As ``torch.load`` with ``options``, of a file of a state. Raises StateRefused."""
    try:
        with safe_globals([*SAVED, (_stage, "__builtin__.getattr"), (_stage, "builtins.getattr")]):
            return torch.load(path, weights_only=True, **options)
    except pickle.UnpicklingError as error:
        # torch's other words are on how to run it all the same.
        named = next(
            (line for line in str(error).splitlines() if "GLOBAL" in line), "It cannot be read."
        )
        raise StateRefused(
            f"{Path(path).name} was not loaded: it is no state's. {named}"
        ) from error


class StateEngine(TorchCheckpointEngine):
    """What DeepSpeed reads a state with."""

    def load(self, path: str, map_location: Any = None) -> Any:
        """As ``state_load``."""
        return state_load(path, map_location=map_location)
