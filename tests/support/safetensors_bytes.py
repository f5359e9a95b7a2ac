"""Files of safetensors, also wrong ones, without torch."""

import json
import math
from typing import Any


def safetensors_bytes(shapes: dict[str, list[int]], *, dtype: str = "F32", **changes: Any) -> bytes:
    """Zeros of these shapes one after another; ``changes`` replace entries of the header, None
    removes one.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        end = at + math.prod(shape) * (4 if dtype == "F32" else 2)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    written = {name: entry for name, entry in (header | changes).items() if entry is not None}
    body = json.dumps(written).encode()
    return len(body).to_bytes(8, "little") + body + bytes(at)
