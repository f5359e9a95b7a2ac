"""What reading episodes costs: lists of a session with very many, and what each costs its runtime
and the store.

    python tests/benchmarks/episodes.py                 100,000 episodes, SQLite in a folder of its own
    python tests/benchmarks/episodes.py --postgres      the same on a PostgreSQL of its own

Target: every filter and sort under 200 ms, the first page and one in the middle. Times are those of
the selectors with the presenter and JSON, the medians of several calls: by the clock, and of the
CPU, that of PostgreSQL's process for this connection included, which other work on the machine
changes less. HTTP comes on top. The second table is the runtime's side: making a row and a document
of an episode, which happens in a thread beside the sampling.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FATES = ["trained"] * 85 + ["eval"] * 8 + ["stale"] * 3 + ["abandoned"] * 3 + ["expired"]
WORDS = [
    "the",
    "capital",
    "of",
    "France",
    "is",
    "Paris",
    "seven",
    "wizards",
    "brew",
    "a",
    "potion",
    "because",
    "two",
]
CALLS = 7  # of each list; their median
COUNTED = [
    "task",
    "fate, common",
    "eval",
    "reward 0.99 to 1",
    "version, old",
    "agent",
    "text, common",
    "text, none",
]  # facets
# calls, first prompt, answer of each, tokens
SHAPES = [(1, 256, 128), (1, 1024, 512), (8, 1024, 256), (40, 2048, 500)]


def fill(count: int) -> Any:
    """A session with ``count`` episodes, as runtimes report them; another one of that size beside
    it.
    """
    from console.sessions.episodes.text_blocks import blocks_extend
    from console.sessions.models import EpisodeRecord, Session
    from console.users.models import Project

    project = Project.objects.create(name="p")
    sessions = [
        Session.objects.create(project=project, base_model="m", state="stopped") for _ in range(2)
    ]
    chance = random.Random(1)

    def record(session: Session, number: int) -> EpisodeRecord:
        fate, step = chance.choice(FATES), 1 + number // 64
        words = " ".join(chance.choices(WORDS, k=80))
        return EpisodeRecord(
            session=session, episode_id=f"epi_{number:012x}", seq=number, task=f"task-{number // 8 % 1000}",
            group_key=f"task-{number // 8 % 1000}", eval=fate == "eval", fate=fate,
            reward=None if fate in ("abandoned", "expired") else round(chance.random(), 2),
            agents="|solver|" if number % 3 else "|solver||critic|", metrics={"turns": 3.0}, calls=3,
            sampled_tokens=chance.randrange(20, 2000), timelines=1, policy_version_first=step - 1,
            policy_version_last=step - 1, trained_step=step if fate == "trained" else None,
            advantage=chance.uniform(-1, 1), logprob_mean=chance.uniform(-2, 0), prompt=words[:500],
            answer=words[:500] + (" xylophone" if number == 17 else ""), begun_at=1e9 + number, ended_at=1e9 + number,
        )  # fmt: skip

    for session in sessions:
        for start in range(0, count, 2000):
            rows = [record(session, number) for number in range(start, min(count, start + 2000))]
            EpisodeRecord.objects.bulk_create(rows)
            if session is sessions[0]:
                blocks_extend(session, rows)
    return sessions[0]


def lists(session: Any) -> Iterator[tuple[str, tuple[float, float]]]:
    """Every filter and sort with the milliseconds of a page, by the clock and of the CPU."""
    from api.presenters import episode_list_view, group_list_view, step_view
    from console.sessions.episodes.facets import episode_facets
    from console.sessions.episodes.selectors import (
        EpisodeFilter,
        episode_list,
        group_list,
        step_get,
    )
    from tinkerscript.wire.reading.trajectories import EpisodeFate, EpisodeSort

    where = {"project": session.project, "session_id": session.id}

    def page(
        only: EpisodeFilter, sort: EpisodeSort = EpisodeSort.NEWEST, cursor: str | None = None
    ) -> None:
        found, more = episode_list(**where, only=only, sort=sort, cursor=cursor, limit=50)
        episode_list_view(found, {}, more).model_dump_json()

    for sort in EpisodeSort:
        yield f"sort {sort}", milliseconds(lambda sort=sort: page(EpisodeFilter(), sort))
    middle = {
        EpisodeSort.NEWEST: "50000",
        EpisodeSort.BEST: "0.5~50000",
        EpisodeSort.SURPRISING: "-1.0~50000",
    }
    for sort, cursor in middle.items():
        yield (
            f"sort {sort}, in the middle",
            milliseconds(lambda s=sort, c=cursor: page(EpisodeFilter(), s, c)),
        )
    filters = {
        "task": EpisodeFilter(task="task-17"),
        "fate, common": EpisodeFilter(fates=[EpisodeFate.TRAINED]),
        "fate, rare": EpisodeFilter(fates=[EpisodeFate.EXPIRED]),
        "two fates": EpisodeFilter(fates=[EpisodeFate.STALE, EpisodeFate.ABANDONED]),
        "eval": EpisodeFilter(eval=True),
        "reward 0.99 to 1": EpisodeFilter(reward_min=0.99, reward_max=1.0),
        "reward 2 to 3, none": EpisodeFilter(reward_min=2.0, reward_max=3.0),
        "version, old": EpisodeFilter(version=3),
        "version, none": EpisodeFilter(version=99_999),
        "step": EpisodeFilter(step=700),
        "agent": EpisodeFilter(agent="critic"),
        "agent, none": EpisodeFilter(agent="nobody"),
        "text, common": EpisodeFilter(text="wizards"),
        "text, in the oldest": EpisodeFilter(text="XYLOPHONE"),
        "text, none": EpisodeFilter(text="nowhere at all"),
        "two letters, none": EpisodeFilter(text="zq"),
    }
    for name, only in filters.items():
        for sort in (EpisodeSort.NEWEST, EpisodeSort.BEST):
            yield f"{name}, {sort}", milliseconds(lambda only=only, sort=sort: page(only, sort))
    counted = {"all": EpisodeFilter()} | {name: filters[name] for name in COUNTED}
    for name, only in counted.items():
        yield (
            f"facets, {name}",
            milliseconds(lambda only=only: episode_facets(**where, only=only).model_dump_json()),
        )
    yield (
        "groups, newest",
        milliseconds(lambda: group_list_view(*group_list(**where)).model_dump_json()),
    )
    yield (
        "groups of a task",
        milliseconds(
            lambda: group_list_view(*group_list(**where, task="task-17")).model_dump_json()
        ),
    )
    yield "a step", milliseconds(lambda: step_view(step_get(**where, step=700)).model_dump_json())


def milliseconds(call: Callable[[], object]) -> tuple[float, float]:
    """The medians of several calls: by the clock, and of the CPU."""
    taken, used = [], []
    for _ in range(CALLS):
        began, cpu_before = time.perf_counter(), cpu_s()
        call()
        taken.append(time.perf_counter() - began)
        used.append(cpu_s() - cpu_before)
    return 1000 * statistics.median(taken), 1000 * statistics.median(used)


def cpu_s() -> float:
    """CPU seconds so far of this process, and of the one that serves its connection to PostgreSQL
    on this machine.
    """
    from django.db import connection

    if connection.vendor != "postgresql":
        return time.process_time()
    served_by = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return time.process_time() + int(served_by.read_text().split()[0]) / 1e9


def episodes(folder: Path) -> Iterator[str]:
    """One line for each shape of episode: bytes in the table and the store, CPU milliseconds of row
    and document.
    """
    from gpu_runtime.journal.journal import Journal
    from gpu_runtime.journal.records import CallRecord, Completion, Parent
    from gpu_runtime.trajectories.documents import document_pack, episode_document
    from gpu_runtime.trajectories.rows import episode_row
    from gpu_runtime.trajectories.token_texts import TokenTexts
    from support.light_tokenizer import LightTokenizer
    from support.tiny_tokenizers import build_tokenizer
    from tinkerscript.wire.episodes import WorkflowOutput

    texts, chance = (
        TokenTexts(LightTokenizer(build_tokenizer(folder / "tokenizer"))),
        random.Random(1),
    )
    journal = Journal(folder / "journal.sqlite3", min_free_bytes=0)
    for number, (calls, prompt, answer) in enumerate(SHAPES):
        name = f"epi_{number}"
        journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
        ids, parent = tuple(chance.randrange(30, 550) for _ in range(prompt)), None
        for index in range(calls):
            sampled = tuple(chance.randrange(30, 550) for _ in range(answer))
            logprobs = tuple(-chance.expovariate(1.0) for _ in sampled)
            told = Completion(
                0,
                sampled,
                logprobs,
                (7,) * answer,
                texts.text(sampled),
                "stop",
                {"role": "assistant"},
            )
            kept = len(ids) - (20 if parent else 0)
            call = CallRecord(f"call_{number}_{index}", name, ids, (told,), 1.0, 2.0, parent=parent)
            journal.calls.record(call, parent_prefix_length=kept if parent else 0)
            parent = Parent(call.id, 0, answer)
            ids = (*ids, *sampled, *(chance.randrange(30, 550) for _ in range(20)))
        journal.episodes.end(
            name, WorkflowOutput(reward=0.5), {"timelines": 1, "agents": [], "drift": []}
        )
        record = journal.episodes.get(name)
        assert record is not None
        row = episode_row(record, journal.calls.of_episode(name), None).model_dump_json()
        packed = document_pack(episode_document(record, journal.calls.of_episode(name), texts))
        row_ms = cpu_ms(
            lambda: episode_row(record, journal.calls.of_episode(name), None).model_dump_json()  # noqa: B023
        )
        document_ms = cpu_ms(
            lambda: document_pack(episode_document(record, journal.calls.of_episode(name), texts))  # noqa: B023
        )
        tokens = calls * answer
        yield (
            f"{calls:>3} calls {prompt:>5} + {answer:>4} tokens | {len(row):>6} B row {row_ms:7.2f} ms |"
            f" {len(packed):>8} B document {document_ms:8.1f} ms | {len(packed) / tokens:5.1f} B a sampled token"
        )
    journal.close()


def cpu_ms(call: Callable[[], object]) -> float:
    """The median of several calls, of this thread's CPU time."""
    taken = []
    for _ in range(CALLS):
        began = time.thread_time()
        call()
        taken.append(time.thread_time() - began)
    return 1000 * statistics.median(taken)


@contextmanager
def database(*, is_postgres: bool) -> Iterator[None]:
    """A migrated database in a folder that goes: of SQLite, or of a PostgreSQL that is started for
    it.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        if is_postgres:
            import on_postgres

            tools = on_postgres.postgres_tools()
            if tools is None:
                raise SystemExit(
                    "PostgreSQL is not on this machine (Debian: apt-get install postgresql)"
                )
            os.environ["DATABASE_URL"] = stack.enter_context(on_postgres.postgres(tools, folder))
        os.environ["TINKERSCRIPT_DATA"] = str(folder / "data")
        os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        call_command("migrate", verbosity=0)
        yield
        connection.close()


def analyze() -> None:
    """PostgreSQL's statistics are made now, and not by its own clock within the measurement."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
    with database(is_postgres=options.postgres):
        began = time.perf_counter()
        session = fill(options.episodes)
        analyze()
        print(f"{2 * options.episodes} rows written in {time.perf_counter() - began:.0f} s")
        slowest = 0.0
        for name, (taken, used) in lists(session):
            slowest = max(slowest, used)
            print(f"{name:<36} {taken:8.1f} ms {used:8.1f} ms of CPU", flush=True)
        print(f"slowest {slowest:.1f} ms of CPU, target 200 ms")
    if options.postgres:
        return
    with tempfile.TemporaryDirectory() as name:
        for line in episodes(Path(name)):
            print(line)


if __name__ == "__main__":
    main()
