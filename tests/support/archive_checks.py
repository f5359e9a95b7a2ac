"""The archive of episodes, read from a store and held against the journal that it was made from."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, EpisodeRecord
from support.fake_control_plane import FakeControlPlane


def rows_in(plane: FakeControlPlane) -> list[dict[str, Any]]:
    """Every row of the parts that are committed; their numbers have no gap."""
    uploads = [
        upload
        for upload in plane.uploads.values()
        if upload["kind"] == "archive" and upload["committed"]
    ]
    sizes = {upload["part"]: upload["episodes"] for upload in uploads}
    assert sorted(sizes) == list(range(1, len(sizes) + 1))
    rows = []
    for number, episodes in sorted(sizes.items()):
        part = parquet.read_table(
            io.BytesIO(plane.objects[f"None/part-{number:06d}.parquet"])
        ).to_pylist()
        assert len(part) == episodes > 0
        rows += part
    assert len({row["episode_id"] for row in rows}) == len(rows), "an episode is in two parts"
    return rows


def check_row(row: dict[str, Any], record: EpisodeRecord, calls: list[CallRecord]) -> None:
    """The row against the journal, read here in a way of its own."""
    output = record.output
    assert (row["task"], row["group_key"], row["eval"]) == (
        record.task,
        record.group_key,
        record.eval,
    )
    assert (row["begun_at"], row["ended_at"], row["reason"]) == (
        record.begun_at,
        record.ended_at,
        record.reason,
    )
    assert (row["trained_step"], row["sampled_tokens"]) == (
        record.trained_step,
        record.sampled_tokens,
    )
    assert row["reward"] == (output.reward if output else None)
    parts = (
        {f"reward/{part}": value for part, value in output.reward_parts.items()} if output else {}
    )
    assert dict(row["metrics"] or []) == ({**output.metrics, **parts} if output else {})
    completed = [call for call in calls if call.status == "completed"]
    sampled = [token for line in row["timelines"] for token in line["mask"] if token]
    assert len(sampled) == sum(
        len(answer.token_ids_T) for call in completed for answer in call.completions
    )
    for call in completed:
        for answer in call.completions:
            whole = [*call.prompt_ids_P, *answer.token_ids_T]
            start, end = len(call.prompt_ids_P), len(whole)
            here = [
                t
                for t in row["timelines"]
                if call.id in t["calls"] and t["token_ids"][:end] == whole
            ]
            found = [line for line in here if all(line["mask"][start:end])]
            equal = [other for other in call.completions if other.token_ids_T == answer.token_ids_T]
            assert len(found) == len(equal), "equal answers that were sampled twice are two samples"
            assert {line["agent"] for line in found} == {call.agent}
            assert [line["logprobs"][start:end] for line in found] == [
                list(other.logprobs_T) for other in equal
            ]
            assert [line["policy_versions"][start:end] for line in found] == [
                list(other.versions_T) for other in equal
            ]
    for line in row["timelines"]:
        assert [v == -1 for v in line["policy_versions"]] == [not mask for mask in line["mask"]]
        assert not any(
            p for p, mask in zip(line["logprobs"], line["mask"], strict=True) if not mask
        )
    in_row = [
        (c["id"], c["status"], json.loads(c["messages"]), [a["text"] for a in c["answers"]])
        for c in row["calls"]
    ]
    texts = [[answer.text for answer in call.completions] for call in calls]
    kept = [
        (call.id, call.status, list(call.messages), text)
        for call, text in zip(calls, texts, strict=True)
    ]
    assert in_row == kept


def check_archive(plane: FakeControlPlane, volume: Path) -> dict[str, str]:
    """Each row is as the journal of ``volume`` says; the fate of every archived episode."""
    journal = Journal(volume / "journal.sqlite3")
    try:
        rows = rows_in(plane)
        for row in rows:
            record = journal.episodes.get(row["episode_id"])
            assert record is not None
            check_row(row, record, journal.calls.of_episode(record.id))
        return {row["episode_id"]: row["fate"] for row in rows}
    finally:
        journal.close()
