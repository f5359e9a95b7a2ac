"""The sizes of a model's weights, read from its configuration and the headers of its files."""

import json
import math
from pathlib import Path
from typing import Any

from .models.quantised import quantisation_of, shapes_in_full
from .models.weight_files import weights_stored


def weights_count(folder: Path) -> int:
    """The number of weights in a folder, from the headers of its safetensors files; 0 where there
    are none.
    """
    return sum(math.prod(shape) for shape in weight_shapes(folder).values())


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name, from the headers of a folder's safetensors files; of a
    quantised folder those that it has in full.
    """
    stored = weights_stored(folder)
    found = quantisation_of(_config(folder)) if stored else None
    if found is None:
        return {name: it.shape for name, it in stored.items()}
    return dict(shapes_in_full(stored, found))


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
