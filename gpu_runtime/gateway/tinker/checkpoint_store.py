"""What the operations of a model, and its samplers, need of named checkpoints."""

from pathlib import Path
from typing import Protocol

from tinkerscript.wire.tinker.messages import ModelSource, NamedCheckpointOpen


class CheckpointStore(Protocol):
    """Where named checkpoints go and come from."""

    async def store(self, wanted: NamedCheckpointOpen, folder: Path, seq_id: int) -> int:
        """Publish ``folder`` under its name; its bytes. Raises UserMistake where the name is taken."""
        ...

    async def find(self, model_id: str, path: str, *, optimizer: bool) -> ModelSource:
        """A saved state by its path. Raises UserMistake where the model's client may read none there."""
        ...

    async def fetch(self, source: ModelSource) -> Path:
        """The folder of a stored checkpoint, brought here if it is not. Raises CheckpointDeleted, StoreUnavailable."""
        ...
