"""The sizes of a model's weights, read from the headers of its files and from nothing else."""

import json
import math
from pathlib import Path

INDEX = "model.safetensors.index.json"
MOST_HEADER_BYTES = 100_000_000  # the limit of the format


def weights_count(folder: Path) -> int:
    """The number of weights in a folder, from the headers of its safetensors files; 0 where there
    are none.
    """
    return sum(math.prod(shape) for shape in weight_shapes(folder).values())


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name, from the headers of a folder's safetensors files.

    A file begins with the length of its header (8 bytes, little-endian) and the header, which is
    JSON. Source: huggingface.co/docs/safetensors, "Format".
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in _files(folder) if folder.is_absolute() else ():
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        shapes |= {
            name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"
        }
    return shapes


def _files(folder: Path) -> list[Path]:
    """Those that the index names; without one all but other forms of the same weights (Mistral's)
    and adapters.
    """
    found = sorted(folder.glob("*.safetensors"))
    index = folder / INDEX
    if index.exists():
        named = set(json.loads(index.read_text())["weight_map"].values())
        return [path for path in found if path.name in named]
    return [path for path in found if not path.name.startswith(("consolidated", "adapter_"))]


def weights_damage(folder: Path) -> str | None:
    """What is missing of a folder's weights, with the file named; None where nothing shows.

    A file's last tensor ends where the file does. Shards that the index names have to be there.
    """
    index = folder / INDEX
    try:
        named = (
            sorted(set(json.loads(index.read_text())["weight_map"].values()))
            if index.exists()
            else []
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{INDEX} is damaged: it is no index of weights; fetch it again"
    if missing := [name for name in named if not (folder / name).is_file()]:
        return f"{INDEX} names {missing[0]}, which is not in the folder; fetch the model again"
    for path in _files(folder):
        if (whole := _whole_bytes(path)) is None:
            return f"{path.name} is damaged: its header cannot be read; fetch it again"
        if (size := path.stat().st_size) != whole:
            which = "is cut off" if size < whole else "is damaged"
            return (
                f"{path.name} {which}: it has {size} bytes and should have {whole}; fetch it again"
            )
    return None


def _whole_bytes(path: Path) -> int | None:
    """How many bytes a file of safetensors has by its own header; None where that is none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size, MOST_HEADER_BYTES):
            return None
        try:
            header = json.loads(file.read(length))
            ends = [
                entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"
            ]
            return 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None
