"""What the error body of a path looks like, whatever is said in it."""

from typing import Any

from tinkerscript.wire.dialects.error_bodies import Refusal
from tinkerscript.wire.dialects.table import dialect_of


def form_of(value: Any) -> Any:
    """The names of the fields of ``value``, and of those in them."""
    return (
        {name: form_of(field) for name, field in value.items()} if isinstance(value, dict) else None
    )


def error_form(path: str) -> Any:
    """The form of a refusal at ``path``, of the server or of the gateway."""
    return form_of(dialect_of(path).error_body(Refusal(400, "why")))


def error_in(body: dict[str, Any]) -> dict[str, Any]:
    """What of an error body holds the message: ``error`` where the dialect has it."""
    found: dict[str, Any] = body.get("error", body)
    return found
