"""Texts as JSON and every database take them."""

from typing import Any


def plain(text: Any) -> Any:
    """Text that JSON in UTF-8 and every database take: halves of surrogate pairs and NUL become marks."""
    if not isinstance(text, str) or (text.isascii() and "\0" not in text):  # None stays None
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")
