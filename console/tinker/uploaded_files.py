"""Whether files that a client uploaded are a Hugging Face folder of its base model, as exports of
this server are.

Of the weights only the header is read: names, shapes and places of tensors. Source:
huggingface.co/docs/safetensors.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from console.catalogue.base_models import BaseModel
from console.errors import InvalidRequest
from tinkerscript.wire.training.models.quantised import weight_shapes

WEIGHTS, CONFIG = "model.safetensors", "config.json"
REQUIRED = (CONFIG, WEIGHTS)
OPTIONAL = (
    "added_tokens.json", "chat_template.jinja", "generation_config.json", "merges.txt", "special_tokens_map.json",
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json",
)  # fmt: skip
MAX_WEIGHTS_BYTES = 4_000_000_000  # of one file, beyond which models are exported in several
MAX_SMALL_BYTES, MAX_HEADER_BYTES = 64 << 20, 16 << 20
MAX_CONFIG_BYTES = 1 << 20  # it is parsed
# of a tensor in a header, and of what else is in it
ENTRY_BYTES, METADATA_BYTES = 1 << 10, 64 << 10
ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2}
HEAD = "lm_head.weight"
Read = Callable[[int, int], bytes]  # (offset, number of bytes)


def base_shapes(model: BaseModel) -> dict[str, tuple[int, ...]]:
    """The base's weights by name. Raises InvalidRequest for one whose uploads are not taken."""
    shapes = weight_shapes(Path(model.path))
    if not shapes:
        raise InvalidRequest(
            f"The weights of {model.name} are not on this server: nothing can be compared with "
            "them."
        )
    if weights_bytes(shapes) > MAX_WEIGHTS_BYTES:
        raise InvalidRequest(
            f"{model.name} takes more than {MAX_WEIGHTS_BYTES // 10**9} GB in float32: it would "
            "come in several files."
        )
    return shapes


def weights_bytes(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """What they take in float32."""
    return 4 * sum(math.prod(shape) for shape in shapes.values())


def sizes_check(sizes: Mapping[str, int]) -> None:
    """Raises InvalidRequest for a file that is missing, or larger than any of its kind."""
    for name in REQUIRED:
        if not sizes.get(name):
            raise InvalidRequest(
                f"{name} was not uploaded: PUT it to its URL, then finish the upload."
            )
    for name, size_bytes in sizes.items():
        if size_bytes > most_bytes(name):
            raise InvalidRequest(
                f"{name} has {size_bytes} bytes; at most {most_bytes(name)} are taken."
            )


def most_bytes(name: str) -> int:
    """What a file of this name may have, of any base."""
    large = {WEIGHTS: MAX_WEIGHTS_BYTES + MAX_HEADER_BYTES, CONFIG: MAX_CONFIG_BYTES}
    return large.get(name, MAX_SMALL_BYTES)


def config_check(body: bytes, model: BaseModel) -> None:
    """Raises InvalidRequest unless the configuration is of the base's kind of model, without code
    of its own.
    """
    wanted = json.loads((Path(model.path) / CONFIG).read_text())
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InvalidRequest(f"{CONFIG} is no JSON object.")
    for name in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size"):
        if given.get(name) != wanted.get(name):
            raise InvalidRequest(
                f"{CONFIG} says {name} {given.get(name)!r}; {model.name} has {wanted.get(name)!r}."
            )
    if "auto_map" in given:
        raise InvalidRequest(f"{CONFIG} has auto_map: code of a model's own is not taken.")


def weights_check(read: Read, size_bytes: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises InvalidRequest unless the file is whole and has the base's weights, each in its shape.

    A head of its own may be there beside tied embeddings, as exports of an adapted head have one.
    """
    header, begins = _header(read, size_bytes, METADATA_BYTES + ENTRY_BYTES * (len(shapes) + 1))
    ends: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        wanted = shapes.get(name) or (
            shapes.get("model.embed_tokens.weight") if name == HEAD else None
        )
        if wanted is None:
            raise InvalidRequest(
                f"{WEIGHTS} has a tensor {name[:200]!r}, which the base model has not."
            )
        ends.append(_place(name, entry, wanted))
    missing = sorted(shapes.keys() - header.keys() - {HEAD})
    if missing:
        raise InvalidRequest(f"{WEIGHTS} has no tensor {missing[0]!r}, which the base model has.")
    at = 0
    for begin, end in sorted(ends):
        if begin != at:
            raise InvalidRequest(
                f"{WEIGHTS}: its tensors overlap or leave room between them at byte {begin}."
            )
        at = end
    if begins + at != size_bytes:
        raise InvalidRequest(
            f"{WEIGHTS} has {size_bytes} bytes, and its header speaks of {begins + at}."
        )


def _header(read: Read, size_bytes: int, most: int) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(read(0, 8), "little") if size_bytes >= 8 else 0
    if not 0 < length <= min(most, MAX_HEADER_BYTES, size_bytes - 8):
        raise InvalidRequest(
            f"{WEIGHTS} is no safetensors file: its header would have {length} bytes."
        )
    try:
        header = json.loads(read(8, length))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InvalidRequest(f"{WEIGHTS} is no safetensors file: its header is no JSON object.")
    return header, 8 + length


def _place(name: str, entry: Any, wanted: tuple[int, ...]) -> tuple[int, int]:
    """Where a tensor begins and ends. Raises InvalidRequest."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise InvalidRequest(
                f"{WEIGHTS}: the entry of {name!r} has no dtype, shape and data_offsets."
            )
    if tuple(shape) != wanted:
        raise InvalidRequest(
            f"{WEIGHTS}: {name!r} has the shape {shape}; the base model has {list(wanted)}."
        )
    if dtype not in ITEM_BYTES:
        raise InvalidRequest(
            f"{WEIGHTS}: {name!r} holds {dtype[:20]}; {', '.join(ITEM_BYTES)} are taken."
        )
    if not 0 <= begin <= end or end - begin != math.prod(wanted) * ITEM_BYTES[dtype]:
        raise InvalidRequest(
            f"{WEIGHTS}: {name!r} has {end - begin} bytes, which are not its {list(wanted)} of "
            f"{dtype}."
        )
    return begin, end
