"""The sizes of a model's weights, read from the headers of its files and from nothing else."""

import json
import math
from pathlib import Path


def weights_count(folder: Path) -> int:
    """The number of weights in a folder, from the headers of its safetensors files; 0 where there are none."""
    return sum(math.prod(shape) for shape in weight_shapes(folder).values())


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name, from the headers of a folder's safetensors files.

    A file begins with the length of its header (8 bytes, little-endian) and the header, which is JSON.
    Source: huggingface.co/docs/safetensors, "Format".
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in _files(folder) if folder.is_absolute() else ():
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        shapes |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    return shapes


def _files(folder: Path) -> list[Path]:
    """Those that the index names; without one all but other forms of the same weights (Mistral's) and adapters."""
    found = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.exists():
        named = set(json.loads(index.read_text())["weight_map"].values())
        return [path for path in found if path.name in named]
    return [path for path in found if not path.name.startswith(("consolidated", "adapter_"))]
