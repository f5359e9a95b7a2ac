"""JSON as it is defined, and no more: no NaN, no infinity, no text that UTF-8 or a database cannot carry."""

import json
import math
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from api.errors import fields_error

NUL = "\0"
NUL_PROBLEM = "has a NUL character, which no database keeps"


class StrictParser(Parser):
    """Names the field of each value that has no meaning outside this process."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The body. Raises InvalidRequest; ValueError when it is not JSON at all."""
        data = json.loads(request.body.decode())
        if problems := list(_problems(data)):
            raise fields_error(problems)
        return data


def _problems(data: Any) -> Iterator[dict[str, str]]:
    pending = [("", data)]  # a list instead of recursion: nesting is the client's choice
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{path}.{key}" if path else key, inner) for key, inner in value.items()]
            pending += [(f"the name {key!a}", key) for key in value if NUL in key or not key.isascii()]
        elif isinstance(value, list):
            pending += [(f"{path}.{index}", inner) for index, inner in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            yield {"field": path, "problem": f"{value} is not a finite number"}
        elif isinstance(value, str) and NUL in value:
            yield {"field": path, "problem": NUL_PROBLEM}
        elif isinstance(value, str) and not value.isascii() and not _encodes(value):
            yield {"field": path, "problem": "half of a surrogate pair, which is no character"}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
