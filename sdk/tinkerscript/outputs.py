"""What an agent hands to end_episode(), made into a WorkflowOutput or refused before anything is
sent.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from .errors import InvalidRequest, InvalidReward
from .wire import episodes as wire

FIELDS = tuple(wire.WorkflowOutput.model_fields)


class WorkflowOutput(wire.WorkflowOutput):
    __doc__ = wire.WorkflowOutput.__doc__

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **fields: Any) -> None:
            """Raises InvalidReward and InvalidRequest where the fault is made, not where the
            episode is ended."""
            try:
                super().__init__(**_checked(fields))
            except ValidationError as failure:
                raise InvalidRequest(
                    f"The workflow output is not valid: {sentences(failure)}"
                ) from failure

        def __eq__(self, other: object) -> bool:
            """Also to one of the wire's own type, which servers have."""
            return (
                isinstance(other, wire.WorkflowOutput) and self.model_dump() == other.model_dump()
            )

        __hash__ = None  # its mappings have none either


def workflow_output(said: Any) -> WorkflowOutput:
    """A WorkflowOutput from one, from a dict or object with the same fields, or from a plain number
    (the reward).

    Raises InvalidReward when a reward is missing, not a number or not finite, InvalidRequest when
    another field is wrong.

    Example: ``workflow_output(1.0)``, ``workflow_output({"reward": 0.5, "is_success": False})``
    """
    output = WorkflowOutput(**_fields_of(said))
    try:
        output.model_dump_json()
    except PydanticSerializationError as failure:
        raise InvalidRequest(
            f"The workflow output cannot be sent as JSON: {failure}",
            hint="Use strings, numbers, booleans, lists and dicts only in metadata.",
        ) from failure
    return output


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an output: rewards as finite floats, nothing that was left out. Raises
    InvalidReward."""
    fields = dict(given)
    if "reward" not in fields:
        raise InvalidReward("The workflow output has no reward.")
    fields["reward"] = _finite(fields["reward"], "reward")
    for name in ("rewards_by_agent", "rewards_by_call", "reward_parts", "metrics"):
        if fields.get(name) is not None:
            fields[name] = {
                who: _finite(value, f"{name}[{who!r}]")
                for who, value in _mapping(fields, name).items()
            }
    if fields.get("is_success") is not None:
        fields["is_success"] = _truth(fields["is_success"])
    for name in ("metrics", "metadata", "reward_parts"):
        if fields.get(name) is None:
            fields.pop(name, None)
    return fields


def sentences(failure: ValidationError) -> str:
    """What pydantic found wrong, as ``field: reason`` for each field."""
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in failure.errors()
    )


def _fields_of(said: Any) -> dict[str, Any]:
    if isinstance(said, wire.WorkflowOutput):  # what was not set is not sent
        return {name: getattr(said, name) for name in said.model_fields_set}
    if isinstance(said, Mapping):
        unknown = [str(name) for name in said if name not in FIELDS]
        if unknown:
            raise InvalidRequest(
                f"A workflow output has no field {', '.join(unknown)}.",
                hint=f"Known fields: {', '.join(FIELDS)}. Put anything else into metadata.",
            )
        return dict(said)
    if hasattr(said, "reward"):
        return {name: getattr(said, name) for name in FIELDS if hasattr(said, name)}
    if said is None or isinstance(said, str | bytes) or not hasattr(said, "__float__"):
        what = (
            "None (did the agent return nothing?)"
            if said is None
            else f"{type(said).__name__} (it is {said!r:.80})"
        )
        text = (
            " A text or messages are for a judge: session.rollouts(judge=...) has one, and a "
            "worker with --judge, for tasks that were put with judged=True."
        )
        raise InvalidReward(
            f"{what} is no workflow output.",
            hint="Give a WorkflowOutput, an object or dict with a `reward`, or a number."
            + (text if isinstance(said, str | list) else ""),
        )
    return {"reward": said}


def _finite(value: Any, name: str) -> float:
    """A float from any number: Python's, NumPy's or a tensor's with one element. Text is not a
    number.
    """
    try:
        plain = _plain(value)
        if isinstance(plain, str | bytes) or not hasattr(plain, "__float__"):
            raise InvalidReward(
                f"{name} must be a number, not {type(value).__name__} (it is {value!r:.80})."
            )
        number = float(plain)
    except (TypeError, ValueError, OverflowError, RuntimeError) as failure:
        raise InvalidReward(f"{name} must be one finite number: {failure}") from failure
    if not math.isfinite(number):
        raise InvalidReward(f"{name} must be finite, not {number}.")
    return number


def _truth(value: Any) -> bool:
    """A bool from Python's, NumPy's or a tensor's, or from 0 and 1: any text would be true."""
    try:
        plain = _plain(value)
    except (TypeError, ValueError, RuntimeError):
        plain = None
    if isinstance(plain, int | float) and plain in (0, 1):
        return bool(plain)
    raise InvalidRequest(
        f"is_success must be True or False, not {type(value).__name__} (it is {value!r:.80})."
    )


def _plain(value: Any) -> Any:
    """The one element of an array or a tensor, as Python has it; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _mapping(fields: dict[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(fields[name], Mapping):
        raise InvalidRequest(f"{name} must be a dict, not {type(fields[name]).__name__}.")
    return fields[name]
