"""The trainer's own log-probabilities of trained tokens, under the weights before the step that
trained them, and where a session has ``logprobs_after_step`` under those after it.
"""

import math
import sqlite3
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gpu_runtime.journal.records import pack_floats, unpack_floats

AnswerKey = tuple[str, int]  # id of a call, which of its answers
# of each token of an answer; None where it has none
TokenValues = Mapping[AnswerKey, tuple[float | None, ...]]
NO_VALUES: TokenValues = MappingProxyType({})


def trainer_logprobs_insert(
    sql: sqlite3.Connection, before: TokenValues, after: TokenValues
) -> None:
    """Keep them, and note that the documents of their episodes are to be stored with them.

    Within the transaction that makes these episodes trained, which has noted their rows.
    """
    for table, logprobs in (("trainer_logprobs", before), ("trainer_logprobs_after", after)):
        sql.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?)",
            [
                (call_id, choice, floats_pack(values))
                for (call_id, choice), values in logprobs.items()
            ],
        )
    sql.executemany(
        "UPDATE episodes_to_report SET document_due = 1 WHERE episode_id = (SELECT episode_id FROM "
        "calls WHERE id = ?)",
        [(call_id,) for call_id in dict.fromkeys(call_id for call_id, _ in (*before, *after))],
    )


def floats_pack(values: Sequence[float | None]) -> bytes:
    """As float32; NaN stands for None."""
    return pack_floats([math.nan if value is None else value for value in values])


def floats_unpack(blob: bytes) -> tuple[float | None, ...]:
    """What ``floats_pack`` packed."""
    return tuple(None if math.isnan(value) else value for value in unpack_floats(blob))
