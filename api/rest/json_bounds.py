"""How many values a body of JSON has, before it is parsed: parsing takes a process's whole
attention.

A list in a list takes three bytes of a body and seventy of memory, and a parser stops for nobody
meanwhile.
"""

import re

from console.errors import InvalidRequest

# commas and quotation marks: a prompt of 128,000 token ids has a quarter of it
MAX_VALUES = 500_000
MAX_NESTED = 50_000  # objects and lists
# One that has no end goes to the body's: no place is looked at twice.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?+(?:"|\Z)', re.DOTALL)


def values_check(body: bytes) -> None:
    """Raises InvalidRequest for a body that holds too many values to be parsed."""
    if body.count(b",") + body.count(b'"') > MAX_VALUES:
        raise _too_many(f"{MAX_VALUES} values")
    # text has brackets too
    if _nested(body) > MAX_NESTED and _nested(STRING.sub(b"", body)) > MAX_NESTED:
        raise _too_many(f"{MAX_NESTED} objects and lists")


def _nested(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _too_many(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"The request's body has more than {what}.",
        hint="Send less at once.",
        details={"fields": [{"field": "", "problem": f"has more than {what}"}]},
    )
