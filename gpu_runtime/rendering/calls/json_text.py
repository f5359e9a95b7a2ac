"""JSON as its standard has it: Python also takes NaN, numbers beyond the range of a double, and
halves of surrogate pairs, which are no text."""

import json
import math
from typing import Any


def load(text: str) -> Any:
    """The value of ``text``. Raises ValueError or RecursionError."""
    return _text_alone(DECODER.decode(text), text)


def load_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and where it ends. Raises as ``load`` does."""
    value, end = DECODER.raw_decode(text, start)
    return _text_alone(value, text[start:end]), end


def _text_alone(value: Any, text: str) -> Any:
    if "\\u" in text:  # an escape can make half a surrogate pair
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not finite")
    return value


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
