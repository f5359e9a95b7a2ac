"""What was acknowledged is on disk, whole, and counted once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime.errors import DiskFull, LeaseLost, RuntimeFault
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import BatchRecord, CallRecord, Completion, Parent
from gpu_runtime.journal.schema import EpisodeNotOpen
from tinkerscript.wire.episodes import EpisodeState, SampleFate, WorkflowOutput

REPORT = {"timelines": 1}


@pytest.fixture
def journal(tmp_path: Path):
    opened = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    yield opened
    opened.close()


def begin(journal: Journal, episode_id: str, *, task: str | None = "t", eval: bool = False) -> None:
    journal.episodes.begin(episode_id, task=task, eval=eval, deadline_at=2e9)


def call(call_id: str, episode_id: str, prompt=(1, 2), sampled=(3, 4), **fields) -> CallRecord:
    answer = Completion(
        choice=0,
        token_ids_T=sampled,
        logprobs_T=tuple(-0.5 for _ in sampled),
        versions_T=tuple(0 for _ in sampled),
        text="x",
        finish_reason="stop",
        message={"role": "assistant", "content": "x"},
        splice_key="k",
        top_logprobs_T=({3: -0.5, 9: -2.0},),
    )
    return CallRecord(call_id, episode_id, prompt, (answer,), begun_at=1.0, ended_at=2.0, **fields)


def complete(journal: Journal, episode_id: str, reward: float = 1.0, **options) -> None:
    begin(journal, episode_id, **options)
    journal.calls.record(call(f"call-{episode_id}", episode_id))
    journal.episodes.end(episode_id, WorkflowOutput(reward=reward), REPORT)


def test_a_commit_is_on_disk_when_it_returns(journal: Journal) -> None:
    """Also where the machine loses its power, which no kill of a process shows."""
    found = [
        journal.database.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    ]
    assert found == ["wal", 2], "write-ahead log; FULL"


def test_an_episode_has_the_versions_of_its_oldest_and_its_newest_token(journal: Journal) -> None:
    begin(journal, "e1")
    for name, versions in (("c1", (3, 5)), ("c2", (2, 4)), ("c3", (4, 4))):
        made = call(name, "e1")
        answers = tuple(replace(answer, versions_T=versions) for answer in made.completions)
        journal.calls.record(replace(made, completions=answers))
    record = journal.episodes.get("e1")
    assert record is not None and (record.version_first, record.version_last) == (2, 5)


def test_call_comes_back_as_it_was_recorded(journal: Journal) -> None:
    begin(journal, "e1", task=None)
    written = call(
        "c1",
        "e1",
        request_id="r1",
        body_sha256="b",
        agent="a",
        options={"n": 1},
        drift={"reason": "x"},
    )
    journal.calls.record(written, group_key="prompt:abc")
    (read,) = journal.calls.of_episode("e1")
    assert read == CallRecord(**{**written.__dict__, "messages": []})
    record = journal.episodes.get("e1")
    assert (record.calls, record.sampled_tokens, record.group_key) == (1, 2, "prompt:abc")
    assert journal.calls.of_request("e1", "r1") == read
    assert journal.calls.of_request("e1", "r2") is None


def test_raw_log_probabilities_come_back_and_are_those_of_a_call_of_temperature_1(
    tmp_path: Path,
) -> None:
    opened, tempered = Journal(tmp_path / "j"), {"sampling": {"temperature": 0.5, "top_p": 1.0}}
    begin(opened, "e1")
    made = call("c1", "e1", options=tempered)
    opened.calls.record(
        replace(made, completions=(replace(made.completions[0], raw_logprobs_T=(-1.5, -2.5)),))
    )
    opened.calls.record(call("c2", "e1", options={"sampling": {"temperature": 1.0, "top_p": 1.0}}))
    read = opened.calls.of_episode("e1")
    assert [each.raw_of(each.completions[0]) for each in read] == [(-1.5, -2.5), (-0.5, -0.5)]
    opened.close()


@pytest.mark.parametrize(
    ("sampling", "is_raw"),
    [
        (None, True),
        ({"temperature": 1.0, "top_p": 1.0, "max_tokens": 5}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": 0.7}, False),
        ({"temperature": 1.0, "top_p": 0.9}, False),
        ({"temperature": 1.0, "grammar": True}, False),
        ({"temperature": 1.0, "top_k": 5}, False),
        ({"temperature": 1.0, "repetition_penalty": 1.1}, False),
    ],
)
def test_log_probabilities_are_the_models_own_where_nothing_changed_its_distribution(
    sampling, is_raw: bool
) -> None:
    (answer,) = call("c", "e").completions
    found = call("c", "e", options={} if sampling is None else {"sampling": sampling}).raw_of(
        answer
    )
    assert found == (answer.logprobs_T if is_raw else None)


def test_prompt_that_continues_a_call_is_kept_as_its_rest_alone(journal: Journal) -> None:
    begin(journal, "e1")
    journal.calls.record(call("c1", "e1", prompt=tuple(range(1000))))
    longer = (*range(1000), 3, 7, 8)
    journal.calls.record(
        call("c2", "e1", prompt=longer, parent=Parent("c1", 0, 1)), parent_prefix_length=1001
    )
    assert journal.calls.of_episode("e1")[1].prompt_ids_P == longer
    stored = (
        sqlite3.connect(journal.path)
        .execute("SELECT length(prompt_ids) FROM calls WHERE id = 'c2'")
        .fetchone()[0]
    )
    assert stored == 2 * 4


def test_cancelled_call_does_not_answer_its_request_and_is_not_counted(journal: Journal) -> None:
    begin(journal, "e1")
    journal.calls.record(call("c1", "e1", request_id="r1", status="cancelled"))
    assert journal.calls.of_request("e1", "r1") is None
    assert journal.episodes.get("e1").calls == 0
    journal.calls.record(call("c2", "e1", request_id="r1"))
    assert journal.calls.of_request("e1", "r1").id == "c2"


@pytest.mark.parametrize("close", ["end", "abandon", "expire"])
def test_closed_episode_takes_nothing_more(journal: Journal, close: str) -> None:
    begin(journal, "e1")
    journal.calls.record(call("c1", "e1"))
    if close == "end":
        journal.episodes.end("e1", WorkflowOutput(reward=1), REPORT)
    else:
        getattr(journal.episodes, close)("e1", "why")
    for write in (
        lambda: journal.calls.record(call("c2", "e1")),
        lambda: journal.episodes.end("e1", WorkflowOutput(reward=2), REPORT),
        lambda: journal.episodes.abandon("e1", "x"),
        lambda: journal.episodes.expire("e1", "x"),
    ):
        with pytest.raises(EpisodeNotOpen):
            write()
    assert len(journal.calls.of_episode("e1")) == 1


def test_accounting_balances_in_every_state(journal: Journal) -> None:
    for number in range(8):
        begin(journal, f"e{number}", eval=number == 3)
    for number in range(1, 6):
        journal.calls.record(call(f"c{number}", f"e{number}"))
        journal.episodes.end(f"e{number}", WorkflowOutput(reward=1), REPORT)
    journal.episodes.abandon("e6", "superseded")
    journal.episodes.expire("e7", "idle")
    journal.batches.record(1, [["e1"]], 0)
    journal.batches.step_done(1, {"loss": 0.5})
    journal.episodes.mark_stale(["e2", "e1", "e3"], "old")
    found = journal.episodes.accounting()
    assert found.balances
    assert found.model_dump() == {
        **{
            "begun": 8,
            "open": 1,
            "waiting": 2,
            "trained": 1,
            "eval": 1,
            "abandoned": 1,
            "expired": 1,
            "stale": 1,
        },
        "abandoned_by_reason": {"superseded": 1},
    }


def test_episode_is_in_at_most_one_batch_and_a_step_has_one(journal: Journal) -> None:
    for name in ("a", "b", "c"):
        complete(journal, name)
    journal.batches.record(1, [["a", "b"]], 0)
    with pytest.raises(sqlite3.IntegrityError):
        journal.batches.record(2, [["c", "a"]], 0)
    assert journal.batches.get(2) is None, "nothing half done"
    with pytest.raises(sqlite3.IntegrityError):
        journal.batches.record(1, [["c"]], 0)
    assert [episode.id for episode in journal.episodes.waiting()] == ["c"]
    assert journal.batches.get(1).groups == (("a", "b"),)


def test_step_is_recorded_once(journal: Journal) -> None:
    complete(journal, "a")
    journal.batches.record(1, [["a"]], 0)
    assert journal.batches.step_done(1, {"loss": 1.0})
    assert not journal.batches.step_done(1, {"loss": 2.0})
    (metrics,) = journal.database.connection.execute("SELECT metrics FROM steps").fetchone()
    assert json.loads(metrics) == {"loss": 1.0}
    assert (
        journal.batches.latest_step(),
        journal.episodes.get("a").fate,
        journal.episodes.get("a").trained_step,
    ) == (
        1,
        SampleFate.TRAINED,
        1,
    )


def test_batches_after_a_checkpoint_are_found_in_order(journal: Journal) -> None:
    for step in (1, 2, 3):
        complete(journal, f"e{step}")
        journal.batches.record(step, [[f"e{step}"]], step - 1)
        if step < 3:
            journal.batches.step_done(step, {})
    assert [batch.step for batch in journal.batches.after(1)] == [2, 3]


def test_refused_batch_frees_its_step_and_its_episodes_are_stale(journal: Journal) -> None:
    complete(journal, "a")
    journal.batches.record(1, [["a"]], 0)
    journal.batches.discard(1, "NaN gradient")
    assert journal.episodes.get("a").fate is SampleFate.STALE
    assert journal.episodes.get("a").reason == "NaN gradient"
    assert journal.batches.get(1) is None
    found = journal.batches.refused("refused-a")
    assert found and found[:2] == (BatchRecord(1, 0, (("a",),)), "NaN gradient")
    complete(journal, "b")
    journal.batches.record(1, [["b"]], 0)
    assert journal.batches.refused("refused-b") is None


def test_a_completed_step_keeps_what_it_measured(journal: Journal) -> None:
    complete(journal, "a")
    journal.batches.record(1, [["a"]], 0)
    assert journal.batches.step_metrics(1) is None
    journal.batches.step_done(1, {"loss": 0.5})
    assert journal.batches.step_metrics(1) == {"loss": 0.5}


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    first = Journal(tmp_path / "j", min_free_bytes=0)
    complete(first, "a")
    begin(first, "b")
    first.close()
    again = Journal(tmp_path / "j", min_free_bytes=0)
    assert [episode.id for episode in again.episodes.open()] == ["b"]
    assert [episode.id for episode in again.episodes.waiting()] == ["a"]
    again.close()


def test_journal_of_another_schema_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j", min_free_bytes=0).close()
    with sqlite3.connect(tmp_path / "j") as raw:
        raw.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    raw.close()
    with pytest.raises(RuntimeFault, match="schema 99"):
        Journal(tmp_path / "j")


def test_full_disk_is_refused_before_new_work(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", min_free_bytes=2**62)
    with pytest.raises(DiskFull):
        begin(journal, "a")
    assert journal.episodes.accounting().begun == 0
    journal.close()


def test_disk_that_fills_up_in_a_write_leaves_nothing_half_done(journal: Journal) -> None:
    begin(journal, "a")
    journal.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = journal.database.connection.execute("PRAGMA page_count").fetchone()[0]
    journal.database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFull):
        journal.calls.record(call("c1", "a", prompt=tuple(range(100_000))))
    assert journal.calls.of_episode("a") == []
    assert journal.episodes.get("a").calls == 0
    journal.database.connection.execute("PRAGMA max_page_count = 1000000")
    journal.calls.record(call("c1", "a"))
    journal.episodes.end("a", WorkflowOutput(reward=1), REPORT)
    assert journal.episodes.get("a").state is EpisodeState.COMPLETED


def test_backup_is_one_consistent_file(journal: Journal, tmp_path: Path) -> None:
    complete(journal, "a")
    journal.database.backup(tmp_path / "copy")
    complete(journal, "b")
    assert not [
        path.name
        for path in tmp_path.iterdir()
        if path.name.startswith("copy") and path.name != "copy"
    ]
    copy = Journal(tmp_path / "copy", min_free_bytes=0)
    assert [episode.id for episode in copy.episodes.waiting()] == ["a"]
    copy.close()


CHILD = """
import sys
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from dataclasses import replace
from pathlib import Path
from tinkerscript.wire.episodes import WorkflowOutput

journal = Journal(Path(sys.argv[1]), min_free_bytes=0)
start = journal.episodes.accounting().begun
for number in range(start, start + 10_000):
    name = f"e{number}"
    journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
    print("begun", name, flush=True)
    answer = Completion(0, (1,) * 500, (-1.0,) * 500, (0,) * 500, "x", "stop", {"role": "assistant", "content": "x"})
    journal.calls.record(CallRecord(f"c{number}", name, tuple(range(500)), (answer,), 1.0, 2.0))
    print("called", name, flush=True)
    journal.episodes.end(name, WorkflowOutput(reward=1.0), {"timelines": 1})
    print("ended", name, flush=True)
    if number % 2:
        step = 1 + (journal.batches.after(0)[-1].step if journal.batches.after(0) else 0)
        journal.batches.record(step, [[name]], step - 1)
        print("batch", step, flush=True)
        journal.batches.step_done(step, {})
        print("step", step, flush=True)
"""


@pytest.mark.smoke
def test_sigkill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    acknowledged: list[tuple[str, str]] = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["sdk", "."])}
    for round_number in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        # each time in another of its steps
        lines = [child.stdout.readline() for _ in range(1 + 13 * round_number)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait(25)
        child.stdout.close()
        # The last line may have been cut in the pipe.
        acknowledged += [tuple(line.split()) for line in lines if line.endswith("\n")]
        journal = Journal(path, min_free_bytes=0)
        assert journal.database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert journal.episodes.accounting().balances
        for what, name in acknowledged:
            if what == "begun":
                assert journal.episodes.get(name)
            elif what == "called":
                assert len(journal.calls.of_episode(name)) == 1
            elif what == "ended":
                assert journal.episodes.get(name).output.reward == 1.0
            elif what == "batch":
                assert journal.batches.get(int(name))
            else:
                assert journal.batches.latest_step() >= int(name)
        journal.close()
    assert len(acknowledged) > 30


def test_a_journal_that_another_runtime_has_opened_takes_nothing_from_the_one_before(
    journal: Journal,
) -> None:
    """The machine of the one before is not reached by the server, and reaches the file system."""
    journal.hold()
    begin(journal, "epi_1")
    successor = Journal(journal.path, min_free_bytes=0)
    successor.hold()
    with pytest.raises(LeaseLost, match="another runtime has opened journal.sqlite3"):
        begin(journal, "epi_2")
    begin(successor, "epi_3")
    assert [row["id"] for row in successor.database.rows("SELECT id FROM episodes")] == [
        "epi_1",
        "epi_3",
    ]
    successor.close()
