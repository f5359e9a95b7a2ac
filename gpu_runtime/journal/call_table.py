"""Calls in the journal: each with its prompt, its sampled answers, and the totals that they add to
their episode.
"""

import base64
import json
import sqlite3
from collections.abc import Iterable, Mapping

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.records import CallRecord, Completion, Parent, dump
from gpu_runtime.journal.removal import CallsPruned, pruned_among
from gpu_runtime.journal.token_values import (
    experts_pack,
    experts_unpack,
    floats_unpack,
    pack_floats,
    pack_ids,
    sets_number,
    sets_spread,
    unpack_floats,
    unpack_ids,
)


class CallTable:
    """Calls are never changed once they are recorded."""

    def __init__(self, database: Database, episodes: EpisodeTable) -> None:
        self._database, self._episodes = database, episodes

    def record(
        self, call: CallRecord, *, group_key: str | None = None, parent_prefix_length: int = 0
    ) -> None:
        """Keep a call of an open episode; the first one gives a group key to an episode that has
        none.

        ``parent_prefix_length`` counts the ids of the prompt that ``call.parent`` holds already.
        Raises EpisodeNotOpen, DiskFull.
        """
        self._database.check_room()
        with self._database.transaction() as sql:
            self._episodes.require_open(call.episode_id)
            _insert(sql, call, parent_prefix_length)
            if call.status != "completed":
                return
            versions = [
                version for completion in call.completions for version in completion.versions_T
            ]
            sql.execute(
                "UPDATE episodes SET calls = calls + 1, sampled_tokens = sampled_tokens + :tokens,"
                " version_first = min(ifnull(version_first, :first), :first),"
                " version_last = max(ifnull(version_last, :last), :last),"
                " group_key = ifnull(group_key, :group_key) WHERE id = :id",
                {
                    "tokens": len(versions),
                    "first": min(versions, default=0),
                    "last": max(versions, default=0),
                    "group_key": group_key,
                    "id": call.episode_id,
                },
            )

    def of_request(self, episode_id: str, request_id: str) -> CallRecord | None:
        """The completed call that this request id got before, if any."""
        query = "SELECT id FROM calls WHERE episode_id = ? AND request_id = ?"
        row = self._database.row(query, episode_id, request_id)
        return (
            next(call for call in self.of_episode(episode_id) if call.id == row["id"])
            if row
            else None
        )

    def of_episode(self, episode_id: str) -> list[CallRecord]:
        """Every call of an episode in the order in which they were recorded, cancelled ones
        included.

        Raises CallsPruned where only the store has them.
        """
        with self._database.reading() as sql:
            calls = _fetch(sql, episode_id)
            if not calls and pruned_among(sql, [episode_id]):
                raise CallsPruned(f"the calls of {episode_id} are in the object store alone")
            return calls


def _insert(sql: sqlite3.Connection, call: CallRecord, parent_prefix_length: int) -> None:
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


def _fetch(sql: sqlite3.Connection, episode_id: str) -> list[CallRecord]:
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
    return _read(calls, answers)


def _read(calls: Iterable[sqlite3.Row], completions: Iterable[sqlite3.Row]) -> list[CallRecord]:
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


def _parent_prefix(parent: Parent, calls: Mapping[str, CallRecord]) -> tuple[int, ...]:
    """The ids with which a prompt that continues ``parent`` starts."""
    call = calls[parent.call_id]
    answer = next(answer for answer in call.completions if answer.choice == parent.choice)
    return call.prompt_ids_P + answer.token_ids_T[: parent.kept]


def _call(
    row: sqlite3.Row, completions: tuple[Completion, ...], earlier: Mapping[str, CallRecord]
) -> CallRecord:
    parent = None
    prefix: tuple[int, ...] = ()
    if row["parent_call"] is not None:
        parent = Parent(row["parent_call"], row["parent_choice"], row["parent_kept"])
        prefix = _parent_prefix(parent, earlier)
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
