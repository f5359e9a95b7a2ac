"""How records become rows of the journal and rows become records again."""

import base64
import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_runtime.journal.allowed_tokens import sets_number, sets_spread
from gpu_runtime.journal.records import (
    BatchRecord,
    CallRecord,
    Completion,
    EpisodeRecord,
    Parent,
    dump,
    pack_floats,
    pack_ids,
    refused_name,
    unpack_floats,
    unpack_ids,
)
from gpu_runtime.journal.routed_experts import experts_pack, experts_unpack
from gpu_runtime.journal.trainer_logprobs import floats_unpack
from tinkerscript.wire.episodes import EpisodeState, SampleFate, WorkflowOutput
from tinkerscript.wire.sessions import Accounting


def insert_call(sql: sqlite3.Connection, call: CallRecord, parent_prefix_length: int) -> None:
    """Write a call; of its prompt only what follows the ``parent_prefix_length`` ids that its
    parent holds.
    """
    parent = call.parent
    sql.execute(
        "INSERT INTO calls (id, episode_id, request_id, body_sha256, status, agent, parent_call, "
        "parent_choice,"
        " parent_kept, prompt_ids, prompt_tokens, messages_from, messages, options, drift, "
        "begun_at, ended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            call.id,
            call.episode_id,
            # A cancelled call does not answer its request: a repeat of the id is sampled.
            call.request_id if call.status == "completed" else None,
            call.body_sha256,
            call.status,
            call.agent,
            *((parent.call_id, parent.choice, parent.kept) if parent else (None, None, None)),
            pack_ids(call.prompt_ids_P[parent_prefix_length:]),
            len(call.prompt_ids_P),
            call.messages_from,
            dump(list(call.messages)),
            dump(call.options),
            dump(call.drift) if call.drift else None,
            call.begun_at,
            call.ended_at,
        ),
    )
    sql.executemany(
        "INSERT INTO completions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                call.id,
                answer.choice,
                pack_ids(answer.token_ids_T),
                pack_floats(answer.logprobs_T),
                pack_ids(answer.versions_T),
                dump([list(top.items()) for top in answer.top_logprobs_T])
                if answer.top_logprobs_T
                else None,
                answer.text,
                answer.finish_reason,
                answer.stop_reason,
                dump(answer.message),
                answer.splice_key,
            )
            for answer in call.completions
        ],
    )
    sql.executemany(
        "INSERT INTO allowed_sets VALUES (?, ?, ?, ?)",
        [
            (call.id, answer.choice, *_allowed_row(answer))
            for answer in call.completions
            if answer.allowed_T
        ],
    )
    raw = [
        (call.id, each.choice, pack_floats(each.raw_logprobs_T))
        for each in call.completions
        if each.raw_logprobs_T
    ]
    sql.executemany("INSERT INTO raw_logprobs VALUES (?, ?, ?)", raw)
    experts = [
        (call.id, each.choice, experts_pack(each.experts_T))
        for each in call.completions
        if each.experts_T
    ]
    sql.executemany("INSERT INTO routed_experts VALUES (?, ?, ?)", experts)


def read_calls(
    calls: Iterable[sqlite3.Row], completions: Iterable[sqlite3.Row]
) -> list[CallRecord]:
    """The calls of one episode from its rows in order of ``seq``: a parent comes before the calls
    that continue it.
    """
    answers: dict[str, list[Completion]] = {}
    for row in completions:
        answers.setdefault(row["call_id"], []).append(_completion(row))
    read: dict[str, CallRecord] = {}
    for row in calls:
        read[row["id"]] = _call(row, tuple(answers.get(row["id"], ())), read)
    return list(read.values())


def parent_prefix(parent: Parent, calls: Mapping[str, CallRecord]) -> tuple[int, ...]:
    """The ids with which a prompt that continues ``parent`` starts."""
    call = calls[parent.call_id]
    answer = next(answer for answer in call.completions if answer.choice == parent.choice)
    return call.prompt_ids_P + answer.token_ids_T[: parent.kept]


def read_episode(row: sqlite3.Row) -> EpisodeRecord:
    """One row of the episode table."""
    return EpisodeRecord(
        seq=row["seq"],
        id=row["id"],
        task=row["task"],
        group_key=row["group_key"],
        eval=bool(row["eval"]),
        state=EpisodeState(row["state"]),
        fate=SampleFate(row["fate"]) if row["fate"] else None,
        reason=row["reason"],
        output=WorkflowOutput.model_validate_json(row["output"]) if row["output"] else None,
        calls=row["calls"],
        sampled_tokens=row["sampled_tokens"],
        version_first=row["version_first"],
        version_last=row["version_last"],
        report=json.loads(row["report"]) if row["report"] else None,
        trained_step=row["trained_step"],
        begun_at=row["begun_at"],
        deadline_at=row["deadline_at"],
        ended_at=row["ended_at"],
        end_seq=row["end_seq"],
    )


def fetch_calls(sql: sqlite3.Connection, episode_id: str) -> list[CallRecord]:
    """Every call of an episode in the order in which they were recorded."""
    calls = sql.execute(
        "SELECT * FROM calls WHERE episode_id = ? ORDER BY seq", (episode_id,)
    ).fetchall()
    answers = sql.execute(
        "SELECT completions.*, numbers, sets, raw_logprobs, experts, trainer_logprobs.logprobs AS "
        "before_step,"
        " trainer_logprobs_after.logprobs AS after_step FROM completions"
        " JOIN calls ON completions.call_id = id LEFT JOIN allowed_sets USING (call_id, choice)"
        " LEFT JOIN raw_logprobs USING (call_id, choice)"
        " LEFT JOIN routed_experts USING (call_id, choice)"
        " LEFT JOIN trainer_logprobs USING (call_id, choice)"
        " LEFT JOIN trainer_logprobs_after USING (call_id, choice)"
        " WHERE episode_id = ? ORDER BY seq, choice",
        (episode_id,),
    ).fetchall()
    return read_calls(calls, answers)


def fetch_batch(sql: sqlite3.Connection, step: int) -> BatchRecord | None:
    """The batch of a step, or None."""
    row = sql.execute("SELECT * FROM batches WHERE step = ?", (step,)).fetchone()
    if row is None:
        return None
    members = sql.execute(
        "SELECT group_index, episode_id FROM batch_episodes WHERE step = ? ORDER BY position",
        (step,),
    ).fetchall()
    groups: dict[int, list[str]] = {}
    for member in members:
        groups.setdefault(member["group_index"], []).append(member["episode_id"])
    return BatchRecord(step, row["policy_version"], tuple(tuple(ids) for ids in groups.values()))


def insert_refused(sql: sqlite3.Connection, batch: BatchRecord, reason: str, now: float) -> None:
    """Keep what a refused batch was made of."""
    row = (
        refused_name(batch.groups),
        batch.step,
        batch.policy_version,
        dump(batch.groups),
        reason,
        now,
    )
    sql.execute("INSERT INTO refused_batches VALUES (?, ?, ?, ?, ?, ?)", row)


def read_refused(row: sqlite3.Row) -> tuple[BatchRecord, str, float]:
    """A refused batch, why it was refused, and when."""
    groups = tuple(tuple(group) for group in json.loads(row["composition"]))
    return (
        BatchRecord(row["step"], row["policy_version"], groups),
        row["reason"],
        row["refused_at"],
    )


def read_accounting(rows: Iterable[sqlite3.Row]) -> Accounting:
    """Counts of episodes by state, fate and (for abandoned ones) reason, as the wire shows them."""
    counts: dict[str, int] = {}
    reasons: dict[str, int] = {}
    for row in rows:
        state = (row["fate"] or "waiting") if row["state"] == "completed" else row["state"]
        counts[state] = counts.get(state, 0) + row["n"]
        if state == "abandoned":
            reasons[row["reason"]] = row["n"]
    return Accounting(begun=sum(counts.values()), abandoned_by_reason=reasons, **counts)


def _call(
    row: sqlite3.Row, completions: tuple[Completion, ...], earlier: Mapping[str, CallRecord]
) -> CallRecord:
    parent = None
    prefix: tuple[int, ...] = ()
    if row["parent_call"] is not None:
        parent = Parent(row["parent_call"], row["parent_choice"], row["parent_kept"])
        prefix = parent_prefix(parent, earlier)
    return CallRecord(
        id=row["id"],
        episode_id=row["episode_id"],
        prompt_ids_P=prefix + unpack_ids(row["prompt_ids"]),
        completions=completions,
        begun_at=row["begun_at"],
        ended_at=row["ended_at"],
        status=row["status"],
        request_id=row["request_id"],
        body_sha256=row["body_sha256"],
        agent=row["agent"],
        parent=parent,
        messages_from=row["messages_from"],
        messages=json.loads(row["messages"]),
        options=json.loads(row["options"]),
        drift=json.loads(row["drift"]) if row["drift"] else None,
    )


def _completion(row: sqlite3.Row) -> Completion:
    top = json.loads(row["top_logprobs"]) if row["top_logprobs"] else []
    return Completion(
        choice=row["choice"],
        token_ids_T=unpack_ids(row["token_ids"]),
        logprobs_T=unpack_floats(row["logprobs"]),
        versions_T=unpack_ids(row["versions"]),
        text=row["text"],
        finish_reason=row["finish_reason"],
        message=json.loads(row["message"]),
        stop_reason=row["stop_reason"],
        splice_key=row["splice_key"],
        top_logprobs_T=tuple(dict((token, logprob) for token, logprob in entry) for entry in top),
        allowed_T=_read_allowed(row["numbers"], row["sets"]) if row["sets"] else (),
        raw_logprobs_T=unpack_floats(row["raw_logprobs"] or b""),
        experts_T=experts_unpack(row["experts"], len(unpack_ids(row["token_ids"])))
        if row["experts"]
        else (),
        trainer_logprobs_T=floats_unpack(row["before_step"] or b""),
        trainer_logprobs_after_T=floats_unpack(row["after_step"] or b""),
    )


def _allowed_row(answer: Completion) -> tuple[bytes, str]:
    numbers_T, sets = sets_number(answer.allowed_T)
    return pack_ids(numbers_T), dump([base64.b64encode(each).decode() for each in sets])


def _read_allowed(numbers: bytes, sets: str) -> tuple[bytes | None, ...]:
    return sets_spread(unpack_ids(numbers), [base64.b64decode(each) for each in json.loads(sets)])


def plain(text: Any) -> Any:
    """Text that JSON and databases take: halves of surrogate pairs and NUL become marks."""
    if not isinstance(text, str) or (text.isascii() and "\0" not in text):  # None stays None
        return text
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")
    )
