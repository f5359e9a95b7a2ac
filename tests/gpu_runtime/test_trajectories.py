"""What a runtime sends of its episodes: every token once with its text, every row as the journal
has it, none lost.
"""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.trajectories.documents import document_pack, episode_document
from gpu_runtime.trajectories.outbox import (
    documents_due,
    documents_stored,
    reporting_begin,
    rows_due,
    rows_reported,
)
from gpu_runtime.trajectories.rows import episode_row
from gpu_runtime.trajectories.stored_calls import document_calls
from gpu_runtime.trajectories.token_texts import CHUNK_TOKENS, TokenTexts, token_bytes
from support.fake_control_plane import FakeControlPlane, error_body
from support.light_tokenizer import LightTokenizer
from support.runtime_harness import tiny_model
from support.waiting import eventually
from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.reading.trajectories import EpisodeFate, EpisodeTimelines

HARD = "é ½ ñandú 日本語 😀👩‍👩‍👧‍👦 plain <|im_end|> text\n\x00\x1b[31m\u202e"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LightTokenizer:
    return LightTokenizer(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def journal(tmp_path: Path):
    opened = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    yield opened
    opened.close()


# -- Texts ------------------------------------------------------------------------------------------------------------


def test_texts_of_tokens_joined_are_the_decoded_whole_wherever_a_character_is_divided(
    tokenizer,
) -> None:
    texts = TokenTexts(tokenizer)
    ids = tokenizer.encode(HARD * (CHUNK_TOKENS // 20))
    assert len(ids) > 2 * CHUNK_TOKENS
    pieces = texts.pieces(ids)
    assert len(pieces) == len(ids) and "".join(pieces) == tokenizer.decode(
        ids, special=True
    ) == texts.text(ids)
    assert "\ufffd" not in "".join(pieces)


def test_every_token_has_its_own_bytes_exactly(tokenizer) -> None:
    texts = TokenTexts(tokenizer)
    ids = tokenizer.encode("é 日 😀!")
    pieces, split = texts.pieces(ids), texts.split_bytes(ids)
    assert len(split) > 4
    # Whole characters by their text, divided ones by their bytes: together they are what was
    # written.
    raw = b"".join(
        bytes.fromhex(split[at]) if at in split else piece.encode()
        for at, piece in enumerate(pieces)
    )
    assert raw == "é 日 😀!".encode()


def test_a_character_that_the_model_never_finished_is_shown_as_what_it_is(tokenizer) -> None:
    texts = TokenTexts(tokenizer)
    ids = tokenizer.encode("ab 😀")[:-1]
    pieces = texts.pieces(ids)
    assert "".join(pieces) == tokenizer.decode(ids, special=True) and pieces[-1].endswith("\ufffd")
    wrong = [*tokenizer.encode("é")[:1], *tokenizer.encode("plain")]
    assert "".join(texts.pieces(wrong)) == tokenizer.decode(wrong, special=True)


def test_any_ids_at_all_have_as_many_texts_as_there_are_ids(tokenizer) -> None:
    texts, chance = TokenTexts(tokenizer), random.Random(7)
    for _ in range(50):
        ids = [chance.randrange(tokenizer.size) for _ in range(chance.randrange(1, 60))]
        assert len(texts.pieces(ids, before=ids)) == len(ids)


@pytest.mark.parametrize(
    ("entry", "raw"), [("Ã", b"\xc3"), ("Ġthe", b" the"), ("<0xE2>", b"\xe2"), ("▁the", b"")]
)
def test_bytes_come_from_the_vocabulary(entry, raw) -> None:
    assert token_bytes(entry) == raw


# -- Rows and documents -----------------------------------------------------------------------------------------------


def answer(choice: int, ids: tuple[int, ...], version: int = 0, text: str = "") -> Completion:
    logprobs_T, versions_T = tuple(-token / 64 for token in ids), (version,) * len(ids)
    return Completion(
        choice=choice, token_ids_T=ids, logprobs_T=logprobs_T, versions_T=versions_T, text=text,
        finish_reason="stop", message={"role": "assistant", "content": "ä \ud800"},
    )  # fmt: skip


def several_calls(journal: Journal) -> None:
    """An episode with a continued call, a fork, two agents and a cancelled call."""
    journal.episodes.begin("e", task="t\0", eval=False, deadline_at=2e9)
    times = {"begun_at": 1.25, "ended_at": 2.5}
    asked = [{"role": "user", "content": [{"type": "text", "text": "hello\0"}]}]
    journal.calls.record(
        CallRecord(
            "c1", "e", (1, 2), (answer(0, (3, 4)), answer(1, (3, 4))), **times, messages=asked
        )
    )
    journal.calls.record(CallRecord("c2", "e", (1, 2, 3, 4, 9), (answer(0, (5,), 7),), **times))
    journal.calls.record(CallRecord("c3", "e", (8,), (answer(0, (3,)),), **times, agent="cri|tic"))
    journal.calls.record(
        CallRecord("c4", "e", (6,), (answer(0, (2, 2)),), **times, status="cancelled")
    )
    journal.calls.record(CallRecord("c5", "e", (9,), (answer(0, (), text="last 😀\0"),), **times))
    report = {"timelines": 3, "agents": ["cri|tic"], "drift": [{"call": "c2"}]}
    journal.episodes.end(
        "e",
        WorkflowOutput(reward=0.5, reward_parts={"format": 0.5}, metadata={"a": [1, None]}),
        report,
    )


def document_of(
    journal: Journal, tokenizer: LightTokenizer, episode_id: str = "e"
) -> dict[str, Any]:
    calls = journal.calls.of_episode(episode_id)
    document = episode_document(journal.episodes.get(episode_id), calls, TokenTexts(tokenizer))
    packed = document_pack(document)
    assert json.loads(gzip.decompress(packed)) == document and document_pack(document) == packed
    return document


def test_every_sampled_token_is_in_one_run_with_what_the_engine_said_of_it(
    journal, tokenizer
) -> None:
    several_calls(journal)
    document = document_of(journal, tokenizer)
    runs = [run for line in document["timelines"] for run in line["runs"]]
    sampled = [run for run in runs if run["call"] is not None]
    assert [(run["call"], run["answer"], run["start"], run["token_ids"]) for run in sampled] == [
        ("c1", 0, 2, [3, 4]), ("c2", 0, 5, [5]), ("c1", 1, 2, [3, 4]), ("c3", 0, 1, [3]),
    ]  # fmt: skip
    assert [run["policy_versions"] for run in sampled] == [[0, 0], [7], [0, 0], [0]]
    assert all(run["logprobs"] == [-token / 64 for token in run["token_ids"]] for run in sampled)
    assert [sum((run["token_ids"] for run in line["runs"]), []) for line in document["timelines"]] == [
        [1, 2, 3, 4, 9, 5], [1, 2, 3, 4], [8, 3],
    ]  # fmt: skip
    assert [line["tokens"] for line in document["timelines"]] == [6, 4, 2]
    for call in document["calls"][:3]:  # the prompt is what stands before the answer
        for told in call["answers"]:
            whole = [
                token
                for run in document["timelines"][told["timeline"]]["runs"]
                for token in run["token_ids"]
            ]
            known = next(
                record for record in journal.calls.of_episode("e") if record.id == call["id"]
            )
            assert whole[: told["start"]] == list(known.prompt_ids_P)
    cancelled = document["calls"][3]
    assert (cancelled["prompt_token_ids"], cancelled["answers"][0]["token_ids"]) == ([6], [2, 2])
    assert document["output"]["metadata"] == {"a": [1, None]}


def test_a_row_is_what_any_database_takes(journal) -> None:
    several_calls(journal)
    row = episode_row(
        journal.episodes.get("e"), journal.calls.of_episode("e"), {"c1": 1.0, "c2": 0.0}
    )
    row.model_dump_json().encode()
    assert "\0" not in row.model_dump_json() and (row.task, row.prompt, row.answer) == (
        "t␀",
        "hello␀",
        "last 😀␀",
    )
    assert (row.fate, row.reward, row.drift, row.agents) == (
        EpisodeFate.WAITING,
        0.5,
        1,
        ["cri|tic"],
    )
    assert row.metrics == {"reward/format": 0.5}
    assert (row.advantage, row.advantages, row.calls) == (0.5, {"c1": 1.0, "c2": 0.0}, 4)
    assert row.logprob_mean == pytest.approx(-(3 + 4 + 3 + 4 + 5 + 3) / 64 / 6)
    assert episode_row(journal.episodes.get("e"), [], {"c1": 1.0, "c2": 1.0}).advantages is None


# -- What is still to be told -----------------------------------------------------------------------------------------


def test_each_begin_end_and_fate_is_noted_until_it_is_told(journal) -> None:
    journal.episodes.begin("e", task="t", eval=False, deadline_at=2e9)
    begun = rows_due(journal, 9)
    assert [due.episode_id for due in begun] == ["e"] and documents_due(journal, 9) == []
    journal.episodes.end("e", WorkflowOutput(reward=1.0), {"timelines": 0})
    rows_reported(journal, begun)  # of the begin alone: the end came meanwhile
    assert [due.episode_id for due in rows_due(journal, 9)] == ["e"] and documents_due(
        journal, 9
    ) == []
    rows_reported(journal, rows_due(journal, 9))
    (stored,) = documents_due(journal, 9)
    assert (rows_due(journal, 9), stored.episode_id) == ([], "e")
    journal.episodes.mark_stale(["e"], "why")
    assert [due.episode_id for due in rows_due(journal, 9)] == ["e"]
    rows_reported(journal, rows_due(journal, 9))
    documents_stored(journal, [stored])
    assert [due.episode_id for due in documents_due(journal, 9)] == ["e"], (
        "it changed while it was on its way"
    )
    documents_stored(journal, documents_due(journal, 9))
    assert (rows_due(journal, 9), documents_due(journal, 9)) == ([], [])
    assert journal.database.row("SELECT count(*) AS n FROM episodes_to_report")["n"] == 0


def test_what_waits_in_a_journal_that_came_from_its_copy_is_told_again(journal) -> None:
    several_calls(journal)
    rows_reported(journal, rows_due(journal, 9))
    documents_stored(journal, documents_due(journal, 9))
    assert reporting_begin(journal) == 1
    assert [due.episode_id for due in rows_due(journal, 9)] == ["e"] and documents_due(
        journal, 9
    ) == []


def test_a_document_is_stored_again_with_the_trainers_logprobs_once_a_step_trained_it(
    journal, tokenizer
) -> None:
    several_calls(journal)
    rows_reported(journal, rows_due(journal, 9))
    documents_stored(journal, documents_due(journal, 9))
    assert document_of(journal, tokenizer)["trainer_logprobs"] == []
    journal.batches.record(1, [["e"]], 0)
    before = {("c1", 0): (-0.25, None), ("c2", 0): (-0.1,)}
    assert journal.batches.step_done(1, {}, before, {("c1", 0): (-0.5, None)})
    assert not journal.batches.step_done(1, {}, {("c1", 0): (-9.0, -9.0)}), (
        "a step that is done again changes nothing"
    )
    rows_reported(journal, rows_due(journal, 9))
    assert [due.episode_id for due in documents_due(journal, 9)] == ["e"]
    document = document_of(journal, tokenizer)
    assert document["trainer_logprobs"] == [
        {"call": "c1", "answer": 0, "logprobs": [-0.25, None]},
        {"call": "c2", "answer": 0, "logprobs": [pytest.approx(-0.1)]},
    ]
    assert document["trainer_logprobs_after"] == [
        {"call": "c1", "answer": 0, "logprobs": [-0.5, None]}
    ]
    read = {call.id: call.completions for call in document_calls(document)}
    kept = {call.id: call.completions for call in journal.calls.of_episode("e")}
    assert read["c1"][0].trainer_logprobs_T == kept["c1"][0].trainer_logprobs_T == (-0.25, None)
    assert read["c2"][0].trainer_logprobs_T == kept["c2"][0].trainer_logprobs_T
    assert (
        read["c1"][0].trainer_logprobs_after_T
        == kept["c1"][0].trainer_logprobs_after_T
        == (-0.5, None)
    )
    assert read["c2"][0].trainer_logprobs_after_T == kept["c2"][0].trainer_logprobs_after_T == ()
    assert read["c1"][1].trainer_logprobs_T == kept["c1"][1].trainer_logprobs_T == ()
    row = episode_row(journal.episodes.get("e"), journal.calls.of_episode("e"), None)
    assert dict(enumerate(row.ratio_counts)) == dict.fromkeys(range(15), 0) | {2: 1, 4: 1}, (
        "0.8 to 0.9, 0.95 to 0.99"
    )


# -- A whole runtime --------------------------------------------------------------------------------------------------


def stored(plane: FakeControlPlane) -> dict[str, dict[str, Any]]:
    """The document of each episode that is in the store."""
    found: dict[str, dict[str, Any]] = {}
    for upload_id, upload in list(plane.uploads.items()):
        if upload["kind"] == "episodes" and upload["committed"]:
            whole = plane.objects[f"{upload_id}/{upload['files'][0]['path']}"]
            for place in upload["packed"]:
                data = whole[place["offset"] : place["offset"] + place["size_bytes"]]
                found[place["episode_id"]] = json.loads(gzip.decompress(data))
    return found


async def test_every_episode_is_reported_as_it_goes_and_stored_by_the_end(plane, runtime) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        waits = await it.play("c", 0.5)
        begun = await it.post("/episodes", json={"task": "open"})
        await eventually(lambda: plane.episodes.get(begun["episode_id"], {}).get("fate") == "open")
        await eventually(lambda: plane.episodes.get(waits, {}).get("fate") == "waiting")
        await it.end("stop")
        rows = list(plane.episodes.values())
        assert sorted(row["fate"] for row in rows) == ["open", *["trained"] * 4, "waiting"]
        trained = [row for row in rows if row["fate"] == "trained"]
        assert {row["trained_step"] for row in trained} == {1}
        for task in ("a", "b"):
            low, high = sorted(row["advantage"] for row in trained if row["task"] == task)
            assert low == pytest.approx(-1, abs=1e-4) and high == pytest.approx(1, abs=1e-4)
        assert set(stored(plane)) == {row["episode_id"] for row in rows if row["fate"] != "open"}
        assert not (it.volume / "trajectories").exists()


async def test_the_tokens_of_an_open_episode_come_from_the_gateway(plane, runtime) -> None:
    async with runtime(plane) as it:
        episode_id = await it.play("a", 1.0)
        headers = {"X-Relay-Key": "relay"}
        answer = await it.http.get(
            f"http://{it.status['address']}/episodes/{episode_id}/timelines", headers=headers
        )
        told = answer.json()
        assert answer.status_code == 200 and told["advantages"] is None
        (timeline,) = told["document"]["timelines"]
        assert [run["call"] is None for run in timeline["runs"]] == [True, False]
        EpisodeTimelines(episode=told["episode"], report=told["document"]["report"], calls=told["document"]["calls"],
                         timelines=told["document"]["timelines"])  # fmt: skip
        refused = await it.http.get(
            f"http://{it.status['address']}/episodes/{episode_id}/timelines"
        )
        assert refused.status_code == 401
        await it.end("stop")


async def test_what_could_not_be_told_is_told_by_the_next_runtime(plane, runtime) -> None:
    plane.answers["/v1/runtime/episodes"] = (503, error_body("internal"))
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        await eventually(lambda: plane.bodies("/v1/runtime/episodes"))
        it.task.cancel()
    assert plane.episodes == {}
    del plane.answers["/v1/runtime/episodes"]
    async with runtime(plane) as it:
        await eventually(lambda: len(plane.episodes) == 4)
        await it.end("stop")
    assert {row["fate"] for row in plane.episodes.values()} == {"trained"}
    assert set(stored(plane)) == set(plane.episodes)
