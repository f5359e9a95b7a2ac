"""Writes sdk/tinkerscript/sessions/session_options.py from SessionConfig: ``python
sdk/write_session_options.py``.
"""

import types
import typing
from pathlib import Path

from pydantic import BaseModel

from tinkerscript.wire.config import SessionConfig

FILE = Path(__file__).parent / "tinkerscript" / "sessions" / "session_options.py"
HEAD = '''"""The options of TinkerScript(...) for type checkers; written by sdk/write_session_options.py."""

from typing import Literal, TypedDict


'''
CLASS = '''class {name}(TypedDict, total=False):
    """{what} none must be given.

    Bounds and defaults: {model}.
    """

'''


def text() -> str:
    """The file as it should be."""
    models = [
        (field.annotation, f"The fields of {name};")
        for name, field in SessionConfig.model_fields.items()
        if is_model(field.annotation)
    ]
    return HEAD + "\n\n".join(
        class_text(*each) for each in [*models, (SessionConfig, "Every option of a session;")]
    )


def class_text(model: type[BaseModel], what: str) -> str:
    """A model as the TypedDict of its fields."""
    head = CLASS.format(name=options_name(model), what=what, model=model.__name__)
    fields = model.model_fields.items()
    return head + "".join(
        f"    {name}: {annotation_text(field.annotation)}\n" for name, field in fields
    )


def is_model(annotation: object) -> bool:
    """Whether an option has fields of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def options_name(model: type[BaseModel]) -> str:
    """The TypedDict of a model: SessionOptions for SessionConfig."""
    return f"{model.__name__.removesuffix('Config')}Options"


def annotation_text(annotation: object) -> str:
    """A type as one writes it in source."""
    if annotation is type(None):
        return "None"
    if is_model(annotation):
        return options_name(annotation)
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return annotation_text(args[0])
    if origin in (types.UnionType, typing.Union):
        return " | ".join(annotation_text(arg) for arg in args)
    if origin is typing.Literal:
        return (
            "Literal["
            + ", ".join(f'"{arg}"' if isinstance(arg, str) else repr(arg) for arg in args)
            + "]"
        )
    return f"{origin.__name__}[{', '.join(annotation_text(arg) for arg in args)}]"


if __name__ == "__main__":
    FILE.write_text(text())
