"""Episodes as rows of Parquet: one row for each episode, every column described in ``SCHEMA``. No
journal in here.

Shape legend: T tokens of a timeline.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from gpu_runtime.journal.records import CallRecord, Completion, EpisodeRecord, dump
from gpu_runtime.journal.timelines import (
    Segment,
    Timeline,
    agents_of,
    allowed_of,
    by_token,
    experts_of,
    merge,
)
from gpu_runtime.journal.token_values import sets_number

ROWS_AT_ONCE = 16  # of a row group: as many episodes are in memory as objects of Python


def _column(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})


NUMBERS = pa.map_(pa.string(), pa.float64())

TIMELINE = pa.struct(
    [
        _column("agent", pa.string(), "the X-Agent label of its calls"),
        _column("calls", pa.list_(pa.string()), "ids of the calls whose answers are trained here"),
        _column(
            "token_ids",
            pa.list_(pa.int32()),
            "prompt and answers as the engine saw them; all but the sets are as long",
        ),
        _column("mask", pa.list_(pa.int8()), "1: sampled, and trained in this timeline"),
        _column(
            "logprobs",
            pa.list_(pa.float32()),
            "the engine's, natural logarithm; 0 where the mask is 0",
        ),
        _column(
            "raw_logprobs",
            pa.list_(pa.float32()),
            "of temperature 1 over all ids; null: not recorded; 0 where the mask is 0",
        ),
        _column(
            "trainer_logprobs",
            pa.list_(pa.float32()),
            "the trainer's, before the step that trained it; null: computed by none; 0 where the "
            "mask is 0",
        ),
        _column(
            "trainer_logprobs_after",
            pa.list_(pa.float32()),
            "after that step, in sessions with logprobs_after_step",
        ),
        _column(
            "policy_versions",
            pa.list_(pa.int32()),
            "whose weights sampled the token; -1 where the mask is 0",
        ),
        _column(
            "temperatures",
            pa.list_(pa.float32()),
            "at which the token was sampled; 1 where the mask is 0",
        ),
        _column(
            "allowed",
            pa.list_(pa.int32()),
            "which of allowed_sets a grammar left to choose from; -1: every id",
        ),
        _column(
            "allowed_sets",
            pa.list_(pa.binary()),
            "a bit for each id, low bits first, in zlib; empty: not known",
        ),
        _column(
            "experts",
            pa.list_(pa.binary()),
            "of a mixture: those that sampled the token, layer after layer, a byte each, or two "
            "(little-endian) of more than 256 experts; null: not recorded; no list: of no token",
        ),
    ]
)
ANSWER = pa.struct(
    [
        _column("index", pa.int32(), "of the n answers of the call"),
        _column("text", pa.string(), "as decoded"),
        _column("message", pa.string(), "JSON: the message that the client was given"),
        _column("finish_reason", pa.string(), "stop, length, tool_calls"),
    ]
)
CALL = pa.struct(
    [
        _column("id", pa.string(), "call_..."),
        _column(
            "status",
            pa.string(),
            "completed, or cancelled: generation did not finish, in no timeline",
        ),
        _column("agent", pa.string(), "its X-Agent label"),
        _column("begun_at", pa.float64(), "Unix seconds"),
        _column("ended_at", pa.float64(), "Unix seconds"),
        _column(
            "continues", pa.string(), "the call whose messages and answer this one's begin with"
        ),
        _column(
            "messages_from",
            pa.int32(),
            "how many messages of the request are left out: the continued call's",
        ),
        _column("messages", pa.string(), "JSON: the request's other messages"),
        _column("options", pa.string(), "JSON: the request without its messages"),
        _column("answers", pa.list_(ANSWER), "what was sampled; its tokens are in the timelines"),
    ]
)
SCHEMA = pa.schema(
    [
        _column("episode_id", pa.string(), "as begin_episode() returned it"),
        _column("task", pa.string(), "as begun; null without one"),
        _column("group_key", pa.string(), "the task, or a hash of the first prompt"),
        _column("eval", pa.bool_(), "served and counted, never trained"),
        _column(
            "fate",
            pa.string(),
            "trained, eval, stale, abandoned, expired; waiting: the session ended before",
        ),
        _column("reason", pa.string(), "why it was abandoned, expired or stale"),
        _column("trained_step", pa.int64(), "the step that trained it"),
        _column(
            "reward",
            pa.float64(),
            "of the whole episode; null if it was not completed, as all that was reported",
        ),
        _column("is_success", pa.bool_(), "as reported"),
        _column("rewards_by_agent", NUMBERS, "as reported"),
        _column("rewards_by_call", NUMBERS, "as reported"),
        _column("metrics", NUMBERS, "as reported"),
        _column("metadata", pa.string(), "JSON, as reported"),
        _column("begun_at", pa.float64(), "Unix seconds"),
        _column("ended_at", pa.float64(), "Unix seconds"),
        _column("sampled_tokens", pa.int64(), "of its completed calls"),
        _column("policy_version_first", pa.int64(), "the oldest weights that sampled for it"),
        _column("policy_version_last", pa.int64(), "the newest"),
        _column(
            "timelines",
            pa.list_(TIMELINE),
            "the token sequences that its completed calls merge into",
        ),
        _column("calls", pa.list_(CALL), "every request, in the order of recording"),
    ]
)


def part_write(path: Path, rows: Iterable[dict[str, Any]], about: dict[str, str]) -> Iterator[int]:
    """Write ``rows`` to ``path``; yields the size of each row group that is there. The same rows
    give the same bytes.

    ``about`` goes into the file's metadata. Raises OSError.
    """
    rows = iter(rows)
    with ParquetWriter(path, SCHEMA.with_metadata(about), compression="zstd") as writer:
        while group := list(islice(rows, ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(group, schema=writer.schema))
            yield len(group)


def episode_row(record: EpisodeRecord, calls: Sequence[CallRecord]) -> dict[str, Any]:
    """The row of an episode that has ended."""
    output = record.output
    reported: dict[str, Any] = {}
    if output is not None:
        reported = {
            "reward": output.reward,
            "is_success": output.is_success,
            "rewards_by_agent": list((output.rewards_by_agent or {}).items()),
            "rewards_by_call": list((output.rewards_by_call or {}).items()),
            "metrics": list(output.measures.items()),
            "metadata": dump(output.metadata),
        }
    return reported | {
        "episode_id": record.id,
        "task": record.task,
        "group_key": record.group_key,
        "eval": record.eval,
        "fate": (record.fate or "waiting") if output is not None else record.state,
        "reason": record.reason,
        "trained_step": record.trained_step,
        "begun_at": record.begun_at,
        "ended_at": record.ended_at,
        "sampled_tokens": record.sampled_tokens,
        "policy_version_first": record.version_first,
        "policy_version_last": record.version_last,
        "timelines": [
            _timeline(agent, timeline, pieces)
            for agent, pieces in agents_of(calls).items()
            for timeline in merge(pieces)
        ],
        "calls": [_call(call) for call in calls],
    }


def _timeline(agent: str | None, timeline: Timeline, pieces: Sequence[Segment]) -> dict[str, Any]:
    merged = [pieces[index] for index in timeline.segments]
    temperatures = [[piece.temperature] * len(piece.token_ids) for piece in merged]
    raw = [
        [None] * len(each.token_ids) if each.raw_logprobs is None else each.raw_logprobs
        for each in merged
    ]
    before = [each.trainer_logprobs or [None] * len(each.token_ids) for each in merged]
    after = [each.trainer_logprobs_after or [None] * len(each.token_ids) for each in merged]
    allowed_T = allowed_of(timeline, merged) or (None,) * len(timeline.token_ids_T)
    numbers_T, sets = sets_number(allowed_T)
    return {
        "agent": agent,
        "calls": list(dict.fromkeys(piece.call_id for piece in merged)),
        "token_ids": timeline.token_ids_T,
        "mask": timeline.mask_T,
        "logprobs": timeline.logprobs_T,
        "raw_logprobs": by_token(timeline, merged, raw, elsewhere=0.0),
        "trainer_logprobs": by_token(timeline, merged, before, elsewhere=0.0),
        "trainer_logprobs_after": by_token(timeline, merged, after, elsewhere=0.0),
        "policy_versions": by_token(
            timeline, merged, [piece.versions for piece in merged], elsewhere=-1
        ),
        "temperatures": by_token(timeline, merged, temperatures, elsewhere=1.0),
        "allowed": numbers_T,
        "allowed_sets": sets,
        "experts": experts_of(timeline, pieces) or (),
    }


def _call(call: CallRecord) -> dict[str, Any]:
    return {
        "id": call.id,
        "status": call.status,
        "agent": call.agent,
        "begun_at": call.begun_at,
        "ended_at": call.ended_at,
        "continues": call.parent.call_id if call.parent else None,
        "messages_from": call.messages_from,
        "messages": dump(list(call.messages)),
        "options": dump(call.options),
        "answers": [_answer(answer) for answer in call.completions],
    }


def _answer(answer: Completion) -> dict[str, Any]:
    return {
        "index": answer.choice,
        "text": answer.text,
        "message": dump(answer.message),
        "finish_reason": answer.finish_reason,
    }
