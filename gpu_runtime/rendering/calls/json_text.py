"""JSON as its standard has it: Python also takes NaN and numbers beyond the range of a double."""

import json
import math
from typing import Any


def load(text: str) -> Any:
    """The value of ``text``. Raises ValueError or RecursionError."""
    return DECODER.decode(text)


def load_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and where it ends. Raises as ``load`` does."""
    return DECODER.raw_decode(text, start)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not finite")
    return value


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
