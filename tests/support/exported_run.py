"""An exported run of one step, as `tinkerscript record` writes one, made by hand."""

import gzip
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tinkerscript.downloads.record import RunFile
from tinkerscript.wire.checkpoints import CheckpointList
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState, EpisodeView, SampleFate
from tinkerscript.wire.events import Event, EventKind, StepMetrics
from tinkerscript.wire.projects import SessionSpending
from tinkerscript.wire.reading.documents import EpisodeDocument
from tinkerscript.wire.reading.resources import ResourceColumns
from tinkerscript.wire.sessions import SessionLogs, SessionState, SessionView
from tinkerscript.wire.tasks import TaskCounts

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTILE = "<script>document.title='owned'</script>\u202eevil"
SESSION = "ses_exported"
EMPTY_REPORT = {
    "calls": 1, "cancelled_calls": 0, "completions": 1, "timelines": 1, "merged_share": 0.0, "agents": [], "drift": [],
}  # fmt: skip


def document(episode_id: str, text: str) -> dict[str, Any]:
    """One call of one token of context and one sampled token for each character of ``text``."""
    count = len(text)
    context = {"call": None, "answer": 0, "start": 0, "tokens": 1, "text": "?", "token_ids": [7]}
    sampled = {
        "call": "call_1",
        "answer": 0,
        "start": 1,
        "tokens": count,
        "text": text,
        "token_ids": [1] * count,
    }
    values = {
        "pieces": list(text),
        "logprobs": [-0.5] * count,
        "policy_versions": [0] * count,
        "split_bytes": {},
    }
    nothing = {"pieces": [], "logprobs": [], "policy_versions": [], "split_bytes": {}}
    answer = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "timeline": 0,
    }
    own: dict[str, Any] = {"token_ids": [], "logprobs": [], "policy_versions": []}
    call = {
        "id": "call_1",
        "status": "completed",
        "agent": None,
        "begun_at": 1.0,
        "ended_at": 2.0,
        "options": {},
    }
    return {
        "episode_id": episode_id,
        "output": {"reward": 1.0, "metadata": {"said": HOSTILE}, "rewards_by_call": None},
        "report": EMPTY_REPORT,
        "calls": [
            call
            | {"continues": None, "messages_from": 0, "messages": [{"role": "user", "content": "?"}], "drift": None}
            | {"answers": [answer | {"start": 1, "tokens": count} | own], "prompt_token_ids": []}
        ],
        "timelines": [
            {"index": 0, "agent": None, "tokens": count + 1, "runs": [context | nothing, sampled | values]}
        ],
        **{"raw_logprobs": [], "trainer_logprobs": [], "trainer_logprobs_after": []},
    }  # fmt: skip


def episode(number: int, text: str, **more: Any) -> EpisodeView:
    given = {
        "task": HOSTILE,
        "group_key": HOSTILE,
        "reward": float(number),
        "trained_step": 1,
        "advantage": 0.5,
    } | more
    return EpisodeView(
        episode_id=f"epi_{number}", state=EpisodeState.COMPLETED, fate=SampleFate.TRAINED, calls=1, answer=text,
        sampled_tokens=len(text), policy_version_first=0, policy_version_last=0, begun_at=1.0, logprob_mean=-0.5,
        **given,
    )  # fmt: skip


def exported_run_write(folder: Path) -> Path:
    """Two trained episodes with tokens and one open one without, a step, two lines of log."""
    folder.mkdir()
    texts = {"epi_1": HOSTILE, "epi_2": "fine"}
    packed = [
        gzip.compress(json.dumps(document(name, text)).encode()) for name, text in texts.items()
    ]
    sha256 = hashlib.sha256(b"".join(packed)).hexdigest()
    (folder / "documents").mkdir()
    (folder / "documents" / sha256).write_bytes(b"".join(packed))
    places = [
        EpisodeDocument(episode_id="epi_1", file=sha256, offset_bytes=0, size_bytes=len(packed[0])),
        EpisodeDocument(
            episode_id="epi_2", file=sha256, offset_bytes=len(packed[0]), size_bytes=len(packed[1])
        ),
    ]
    opened = EpisodeView(
        episode_id="epi_3", task="open", group_key=None, state=EpisodeState.OPEN, begun_at=3.0
    )
    values = {name: 1 for name, field in StepMetrics.model_fields.items() if field.is_required()}
    events = [
        Event(
            cursor=3,
            kind=EventKind.STATE,
            at=NOW,
            data={"from": "loading", "to": "ready", "phase": "", "reason": ""},
        ),
        Event(cursor=8, kind=EventKind.METRIC, at=NOW, data=StepMetrics(**values).model_dump()),
        Event(cursor=9, kind=EventKind.EVENT, at=NOW, data={"name": "note", "text": HOSTILE}),
    ]
    lines_write(folder / "episodes.jsonl", [episode(1, HOSTILE), episode(2, "fine"), opened])
    lines_write(folder / "documents.jsonl", places)
    lines_write(folder / "events.jsonl", events)
    session = SessionView(
        id=SESSION, project_id="prj_1", name=HOSTILE, base_model="a-model", state=SessionState.STOPPED,
        config=SessionConfig(), policy_version=1, notes=HOSTILE, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    run = RunFile(
        exported_at=NOW,
        session=session,
        usage=SessionSpending(runtime_s=1.0, device_s=1.0),
        checkpoints=CheckpointList(items=[]),
        tasks=TaskCounts(waiting=0, running=0, done=0, failed=0, workers=0, failures=[]),
        resources=ResourceColumns(x=[], columns={}, latest=None, samples_in_all=0),
        logs=SessionLogs(lines=["first line", HOSTILE]),
    )
    (folder / "run.json").write_text(run.model_dump_json())
    return folder


def lines_write(path: Path, items: list[Any]) -> None:
    path.write_text("".join(f"{item.model_dump_json()}\n" for item in items))
