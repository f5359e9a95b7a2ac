"""Options that a session takes between two of its steps."""

from collections.abc import Mapping
from typing import Any, TypedDict

from pydantic import ValidationError

from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import InvalidRequest, UnknownOption
from tinkerscript.outputs import sentences
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate


class ChangeableOptions(TypedDict, total=False):
    """The options of ``Session.update``, for type checkers."""

    learning_rate: float
    kl_coef: float


def update(session: SessionApi, options: Mapping[str, Any]) -> ConfigChange:
    """As Session.update()."""
    unknown = [name for name in options if name not in SessionConfig.model_fields]
    if unknown:
        raise UnknownOption(
            f"Unknown option {', '.join(unknown)}.",
            hint=f"These can change: {', '.join(ConfigUpdate.model_fields)}.",
        )
    try:
        body = ConfigUpdate(**options)
    except ValidationError as failure:
        raise InvalidRequest(f"The options stay as they are: {sentences(failure)}") from failure
    return session.when_ready(lambda: session.send("PATCH", "/config", ConfigChange, body=body))
