"""What the trainer left in the hand-over folder, as tensors of this process: the engine's side of the way in memory."""

import json
from pathlib import Path

from torch import Tensor

from . import loan, shared


class MappedWeights:
    """Maps each piece of memory once, because touching fresh pages costs more than reading them."""

    def __init__(self) -> None:
        self._identity, self._tensors = "", dict[str, Tensor]()

    def of(self, folder: Path) -> dict[str, Tensor]:
        """The weights that were published last, where they lie: they change with the trainer's next step."""
        lent, file = folder / loan.NAME, folder / shared.NAME
        if is_lent := lent.exists():
            identity = lent.read_text()
        else:
            found = file.stat()
            identity = f"{found.st_dev} {found.st_ino} {found.st_size}"
        if identity != self._identity:
            self._tensors = loan.lent_map(json.loads(identity)) if is_lent else shared.tensors_map(file)
            self._identity = identity
        return self._tensors
