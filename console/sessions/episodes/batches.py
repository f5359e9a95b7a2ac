"""A trained batch as the file that a runtime makes of it, once there is no runtime to ask: from
rows and documents.
"""

from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from pydantic import BaseModel

from console.errors import Conflict, NotFound
from console.live.models import EventRecord
from console.sessions.episodes.batch_samples import episode_samples, float32, samples_finish
from console.sessions.episodes.documents import calls_page, document_read
from console.sessions.models import EpisodeRecord, Session
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import StepMetrics
from tinkerscript.wire.reading.batches import BatchEpisode, BatchHeader
from tinkerscript.wire.reading.trajectories import EpisodeFate

IN_MEMORY_BYTES = 8 << 20  # what is larger is written to a file while it is made
PIECE_BYTES = 1 << 20
MAX_NAMED_ADVANTAGES = 500  # calls of an episode whose advantages a row has where they differ
ASK_WHILE_IT_RUNS = "Download such a batch while its session has a runtime."


@dataclass(frozen=True)
class StoredBatch:
    """The lines of a batch. The header comes first and counts them all, so the others are made
    before it is sent.
    """

    header: bytes
    files: tuple[IO[bytes], ...]

    def pieces(self) -> Generator[bytes, None, None]:
        """All of it, in order. The files are gone afterwards."""
        with ExitStack() as stack:
            for file in self.files:
                stack.callback(file.close)
            yield self.header
            for file in self.files:
                file.seek(0)
                while piece := file.read(PIECE_BYTES):
                    yield piece


def batch_read(*, project: Project, session_id: str, name: str) -> StoredBatch:
    """The batch of a step that was done, by the step's number.

    Raises NotFound where there is none; Conflict for one that was refused, and where the tokens of
    an episode are not in the object store; StorageUnavailable.
    """
    session = session_get(project=project, session_id=session_id)
    entry = EventRecord.objects.filter(session_id=session.id, key=f"step {name}").first()
    if entry is None:
        raise _absent(session, name)
    config, step = SessionConfig.model_validate(session.config), int(name)
    groups = _groups(session, step, config.grpo_n)
    episodes: IO[bytes] = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115  StoredBatch.pieces closes both
    samples: IO[bytes] = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115
    count = 0
    for index, group in enumerate(groups):
        made = []
        for record in group:
            document = _document(record)
            advantages = _advantages(record, document)
            made += episode_samples(
                document,
                advantages=advantages,
                group=index,
                with_truncated=not config.mask_truncated,
                with_side=config.train_calls_without_tools,
            )
            _write(episodes, [_episode(record, document, index)])
        finished = samples_finish(made, has_kl_loss=config.has_kl_loss)
        _write(samples, finished)
        count += len(finished)
    header = BatchHeader(
        name=name,
        session_id=session.id,
        base_model=session.base_model,
        step=step,
        state="trained",
        policy_version=step - 1,  # a batch is fixed for the step after those that are done
        seed=config.seed,
        config=config,
        metrics=StepMetrics.model_validate(entry.data),
        groups=len(groups),
        episodes=sum(map(len, groups)),
        samples=count,
    )
    return StoredBatch(_line(header), (episodes, samples))


def _absent(session: Session, name: str) -> NotFound | Conflict:
    if EventRecord.objects.filter(session_id=session.id, key=f"refused {name}").exists():
        return Conflict(
            f"The batch {name} was refused: which episodes were in it is in the journal of its "
            "runtime alone.",
            hint=ASK_WHILE_IT_RUNS,
        )
    return NotFound(
        f"This session has no batch {name[:80]}.",
        hint="A batch is named by the number of its step.",
    )


def _groups(session: Session, step: int, grpo_n: int) -> list[list[EpisodeRecord]]:
    """The groups of the batch as it was made: full ones of a key in the order of beginning, first
    full in front.
    """
    of_step = EpisodeRecord.objects.filter(
        session=session, trained_step=step, fate=EpisodeFate.TRAINED
    )
    by_key: dict[str, list[EpisodeRecord]] = {}
    for record in sorted(of_step.select_related("pack", "session"), key=lambda record: record.seq):
        by_key.setdefault(record.group_key or "", []).append(record)
    groups = [
        members[start : start + grpo_n]
        for members in by_key.values()
        for start in range(0, len(members), grpo_n)
    ]  # fmt: skip
    return sorted(
        groups, key=lambda group: max((record.ended_at or 0.0, record.seq) for record in group)
    )


def _document(record: EpisodeRecord) -> dict[str, Any]:
    if record.pack is None:
        raise Conflict(
            f"The tokens of the episode {record.episode_id}, which is of this batch, are not in "
            "the object store.",
            hint="They are stored within seconds of an episode's end. Those of one whose runtime "
            "was lost before are in"
            " its journal alone.",
        )
    return document_read(record)


def _advantages(record: EpisodeRecord, document: dict[str, Any]) -> dict[str, float]:
    """By call. A row names them where they differ, up to a number of calls."""
    calls = [call["id"] for call in document["calls"] if call["status"] == "completed"]
    named = record.advantages or {}
    if not calls:
        return {}
    if record.advantage is None or (not named and len(calls) > MAX_NAMED_ADVANTAGES):
        raise Conflict(
            f"What the calls of the episode {record.episode_id} were trained with is in the "
            "journal of its runtime"
            " alone.",
            hint=ASK_WHILE_IT_RUNS,
        )
    return {call: named.get(call, record.advantage) for call in calls}


def _episode(record: EpisodeRecord, document: dict[str, Any], group: int) -> BatchEpisode:
    calls = calls_page(document, start=0, limit=len(document["calls"]))
    for answer in (answer for call in calls for answer in call["completions"]):
        answer["logprobs"] = float32(answer["logprobs"])
        if answer["raw_logprobs"] is not None:
            answer["raw_logprobs"] = float32(answer["raw_logprobs"])
    return BatchEpisode.model_validate(
        {
            "group": group,
            "episode_id": record.episode_id,
            "task": record.task,
            "group_key": record.group_key,
            # The reward of an episode that waits may be replaced: the row has the one that was
            # trained.
            "output": document["output"] | {"reward": record.reward},
            "begun_at": record.begun_at,
            "ended_at": record.ended_at,
            "calls": calls,
        }
    )


def _write(file: IO[bytes], models: Iterable[BaseModel]) -> None:
    for model in models:
        file.write(_line(model))


def _line(model: BaseModel) -> bytes:
    return model.model_dump_json().encode() + b"\n"
