"""Where a model's weights are in its files, by the headers of these and nothing else, and whether
the files are whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
INDICES = (INDEX, "pytorch_model.bin.index.json")  # the second of the older form of weights
MOST_HEADER_BYTES = 100_000_000  # the limit of the format


def json_read(path: Path) -> dict[str, Any]:
    """The object in a file of JSON; empty where there is no file, or nothing of the kind in it."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def config_fields(whole: dict[str, Any]) -> dict[str, Any]:
    """Of config.json, those of its text part and (DBRX) of its MLP in the place of the whole's."""
    return whole | (whole.get("text_config") or {}) | (whole.get("ffn_config") or {})


@dataclass(frozen=True)
class Stored:
    """Where a tensor is, its shape, and the name of its type as safetensors has it (``BF16``)."""

    file: str
    shape: tuple[int, ...]
    dtype: str


def weights_stored(folder: Path) -> dict[str, Stored]:
    """Each tensor by its name, from the headers of a folder's safetensors files.

    A file begins with the length of its header (8 bytes, little-endian) and the header, which is
    JSON. Source: huggingface.co/docs/safetensors, "Format".
    """
    return {
        name: Stored(path.name, tuple(entry["shape"]), str(entry.get("dtype")))
        for path in (_files(folder) if folder.is_absolute() else ())
        for name, entry in _header(path).items()
    }


def _header(path: Path) -> dict[str, dict[str, Any]]:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


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

    A file's last tensor ends where the file does. Shards that an index names have to be there, with
    the tensors that it has in them.
    """
    maps = dict[str, dict[str, str]]()
    for index in INDICES:
        try:
            if (folder / index).exists():
                maps[index] = {
                    name: str(file)
                    for name, file in json.loads((folder / index).read_text())["weight_map"].items()
                }
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{index} is damaged: it is no index of weights; fetch it again"
        named = sorted(set(maps.get(index, {}).values()))
        if missing := [name for name in named if not (folder / name).is_file()]:
            return f"{index} names {missing[0]}, which is not in the folder; fetch the model again"
    for path in _files(folder):
        if (whole := _whole_bytes(path)) is None:
            return f"{path.name} is damaged: its header cannot be read; fetch it again"
        if (size := path.stat().st_size) != whole:
            which = "is cut off" if size < whole else "is damaged"
            return (
                f"{path.name} {which}: it has {size} bytes and should have {whole}; fetch it again"
            )
    return _absent(folder, maps.get(INDEX, {}))


def _absent(folder: Path, named: Mapping[str, str]) -> str | None:
    """A tensor that an index has in a file which has no such tensor."""
    stored = weights_stored(folder)
    for name, file in named.items():
        if name not in stored or stored[name].file != file:
            return (
                f"{INDEX}: weight_map has {name} in {file}, which has no such tensor; take the "
                "index and the files of the same model"
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
