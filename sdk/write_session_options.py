"""Writes sdk/tinkerscript/sessions/session_options.py from SessionConfig: ``python sdk/write_session_options.py``."""

import types
import typing
from pathlib import Path

from tinkerscript.wire.config import SessionConfig

FILE = Path(__file__).parent / "tinkerscript" / "sessions" / "session_options.py"
HEAD = '''"""The options of TinkerScript(...) for type checkers; written by sdk/write_session_options.py."""

from typing import Literal, TypedDict


class SessionOptions(TypedDict, total=False):
    """Every option of a session; none must be given. Bounds and defaults: SessionConfig."""

'''


def text() -> str:
    """The file as it should be."""
    fields = SessionConfig.model_fields.items()
    return HEAD + "".join(f"    {name}: {annotation_text(field.annotation)}\n" for name, field in fields)


def annotation_text(annotation: object) -> str:
    """A type as one writes it in source."""
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return annotation_text(args[0])
    if origin in (types.UnionType, typing.Union):
        return " | ".join(annotation_text(arg) for arg in args)
    if origin is typing.Literal:
        return "Literal[" + ", ".join(f'"{arg}"' if isinstance(arg, str) else repr(arg) for arg in args) + "]"
    return f"{origin.__name__}[{', '.join(annotation_text(arg) for arg in args)}]"


if __name__ == "__main__":
    FILE.write_text(text())
