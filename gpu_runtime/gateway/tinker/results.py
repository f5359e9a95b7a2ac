"""What the ledger of operations and the work that they are have in common."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_runtime.journal.model_table import Operation
from tinkerscript.wire.tinker.ids import user_error
from tinkerscript.wire.tinker.messages import CallKind

MODEL_LOST = (
    "the volume of this session was lost, and what this model had learned with it: make a model "
    "from a state that"
    " save_state stored (create_training_client_from_state)"
)


@dataclass(frozen=True)
class Measured:
    """What a call returned in numbers, by name."""

    kind: CallKind
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What came of an operation: JSON, or protobuf, or an error (JSON too). ``tokens`` were trained
    for it.
    """

    kind: str
    body: bytes
    tokens: int = 0
    measured: Measured | None = None

    @classmethod
    def of(cls, value: dict[str, object]) -> "Result":
        """A JSON result."""
        return cls("json", json.dumps(value).encode())

    @classmethod
    def mistake(cls, message: str, category: str = "user") -> "Result":
        """A failure that names its category."""
        return cls("error", json.dumps(user_error(message, category)).encode())


@dataclass(frozen=True)
class Future:
    """What is known of a sample or an operation that was promised: its result, or why it is not
    there yet, in words.

    One that is not, or no longer, kept has no Future.
    """

    result: Result | None
    reason: str = ""

    @classmethod
    def of(
        cls, operation: Operation | None, waiting: Callable[[Operation], str]
    ) -> "Future | None":
        """That of an operation as the journal has it."""
        if operation is None or (operation.is_done and operation.result is None):
            return None
        if operation.result_kind is None or operation.result is None:
            return cls(None, waiting(operation))
        return cls(Result(operation.result_kind, operation.result))
