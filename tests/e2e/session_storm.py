"""Many sessions at once while every process of the server is killed at random: none is lost, none
runs twice.

    python tests/e2e/session_storm.py --sessions 200 --kills 30            some minutes on two cores
    python tests/e2e/session_storm.py --sessions 24 --kills 6 --seed 7     the same seed draws the same storm

Real: ``manage.py up`` with its web server, reconciler and object store, the process launcher, the
whole runtime but for its engine and trainer, and the SDK on the laptops. All sessions are made at
once and wait for one of ``--at-once`` places. Most play episodes and end; some are stopped at once,
some are cancelled in the queue, some sleep and are woken, some bring their model home. Meanwhile
SIGKILL strikes runtimes, reconciler, web server, lease process, store and ``up`` itself, which is
started again by us, all others by the server. A kill strikes when so many deeds are done (a session
made, an episode acknowledged, a session ended), so that a slow machine has the same storm. What
must be true then: storm_checks.py.
"""

import argparse
import asyncio
import faulthandler
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from e2e.loop_server import BASE_MODEL, until  # noqa: E402
from e2e.playing import check_weights, execute_agent, ledger  # noqa: E402
from e2e.storm_checks import DIED, Books, Move, names_problems, problems  # noqa: E402
from e2e.storm_server import StormServer  # noqa: E402

from tinkerscript import TinkerScript, TinkerScriptError  # noqa: E402
from tinkerscript.connection.connecting import connect  # noqa: E402
from tinkerscript.sessions.session import Session, session_list  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402
from tinkerscript.wire.events import EventKind  # noqa: E402
from tinkerscript.wire.sessions import SessionCreate, SessionState, SessionView  # noqa: E402

PAIR = 2  # episodes of a step
CONFIG = SessionConfig(
    grpo_n=PAIR, tasks_per_batch=1, max_context_length=512, max_tokens=16, checkpoint_every_steps=2
)  # fmt: skip
SHARES = {"cancel": 0.1, "idle": 0.1, "nap": 0.08, "export": 0.12}  # the others work
# the others are runtimes
STRUCK = {"reconcile": 0.15, "web": 0.13, "lease": 0.13, "store": 0.06, "up": 0.06}
# how often a runtime with an agent is struck; the others start, stop or sleep for the most part
AT_WORK = 0.7
KILLS_EACH = 3  # of one session's runtimes; the reconciler gives up after five without a step
PATIENCE_S = 900.0  # of a laptop, with whatever it waits for


@dataclass(frozen=True)
class Story:
    """What a laptop does with its session. ``pairs``: of episodes."""

    name: str
    kind: str
    pairs: int


@dataclass(frozen=True)
class Kill:
    """Whom, after how many deeds and seconds; ``pick`` chooses among runtimes, or among those
    ``at_work``.
    """

    whom: str
    after: int
    delay_s: float
    pick: float
    at_work: bool


def storm_draw(sessions: int, kills: int, seed: int) -> tuple[list[Story], list[Kill]]:
    """The whole storm, of which nothing is left to chance but how fast the machine is."""
    rng = random.Random(seed)
    kinds = _shares(sessions, SHARES, "work")
    rng.shuffle(kinds)
    stories = [
        Story(f"storm-{number:03}", kind, 0 if kind in ("cancel", "idle") else rng.randint(1, 2))
        for number, kind in enumerate(kinds)
    ]
    deeds = 2 * sessions + sum(PAIR * story.pairs for story in stories)
    struck = _shares(kills, STRUCK, "runtime")
    rng.shuffle(struck)
    moments = sorted(rng.randint(1, int(0.9 * deeds)) for _ in struck)
    return stories, [
        Kill(whom, after, rng.uniform(0, 1), rng.random(), rng.random() < AT_WORK)
        for whom, after in zip(struck, moments, strict=True)
    ]


def _shares(count: int, shares: dict[str, float], rest: str) -> list[str]:
    some = [kind for kind, share in shares.items() for _ in range(round(share * count))]
    return [*some, *[rest] * (count - len(some))]


class Deeds:
    """Counts what was done, and lets the killer wait for the next moment."""

    def __init__(self) -> None:
        self.count, self.over = 0, False
        self._changed = threading.Condition()

    def done(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def end(self) -> None:
        """No moment comes any more."""
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def reached(self, count: int) -> bool:
        """Wait; False when the storm is over."""
        with self._changed:
            return (
                self._changed.wait_for(lambda: self.over or self.count >= count) and not self.over
            )


@dataclass
class Storm:
    """One storm over one server: laptops, a killer, and what they saw."""

    server: StormServer
    stories: list[Story]
    kills: list[Kill]
    folder: Path
    ids: dict[str, str] = field(default_factory=dict)  # name -> session
    acknowledged: dict[str, list[str]] = field(default_factory=dict)  # name -> episodes
    wrong: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)  # session -> runtimes
    at_work: set[str] = field(default_factory=set)  # sessions with an agent
    given_up: int = 0  # episodes whose agent failed, as agents may
    deeds: Deeds = field(default_factory=Deeds)

    def run(self, *, at_once: int) -> None:
        """Until every session has ended. What went wrong is in ``wrong``."""
        # A session that was woken waits behind all others: such laptops must not keep the rest from
        # their work.
        laptops = at_once + 2 + sum(story.kind == "nap" for story in self.stories)
        killer = threading.Thread(
            target=self._guarded, args=("the killer", self._strike), daemon=True
        )
        with ThreadPoolExecutor(laptops) as pool:
            killer.start()
            self._guarded("the sessions' maker", self._make_all)
            works = [
                pool.submit(self._guarded, story.name, self._live, story)
                for story in self.stories
                if story.name in self.ids
            ]
            wait(works)
        self.deeds.end()
        killer.join(PATIENCE_S)

    def _guarded(self, who: str, act, *arguments: object) -> None:
        try:
            act(*arguments)
        except Exception:  # noqa: BLE001 - the top of a thread: one laptop's failure is reported with the others'
            self.wrong.append(f"{who}: {traceback.format_exc(limit=-6)}")

    def _connect(self):
        url, key = self.server.url, self.server.api_key
        return connect(url, key, retry_timeout_s=PATIENCE_S, first_contact_s=PATIENCE_S)

    def _make_all(self) -> None:
        transport = self._connect()
        try:
            for story in self.stories:
                body = SessionCreate(base_model=BASE_MODEL, name=story.name, config=CONFIG)
                # Refused never, asked again when the answer was lost: its idempotency key makes it
                # one session.
                made = transport.request(
                    "POST", "/v1/sessions", body=body, response=SessionView, timeout_s=20
                )
                self.ids[story.name] = made.id
                self.acknowledged[story.name] = []
                self.deeds.done()
        finally:
            transport.close()

    def _live(self, story: Story) -> None:
        """A laptop's part, from its first to its last word with its session."""
        session_id = self.ids[story.name]
        if story.kind in ("cancel", "idle"):
            transport = self._connect()
            session = Session(transport, session_id)
            while story.kind == "idle" and session.status().state == SessionState.QUEUED:
                session.pause(0.5)
            session.stop()
            session.wait_released(PATIENCE_S)
            transport.close()
        else:
            with TinkerScript(
                session_id=session_id, base_url=self.server.url, api_key=self.server.api_key,
                wait_timeout_s=PATIENCE_S, begin_timeout_s=PATIENCE_S, retry_timeout_s=PATIENCE_S,
            ) as remote:  # fmt: skip
                self._play(remote, story)
                if story.kind == "nap":
                    self._nap(remote)
                    self._play(remote, story)
                if story.kind == "export":
                    self._export(remote, story)
                remote.close(timeout_s=PATIENCE_S)
        self.deeds.done()

    def _play(self, remote: TinkerScript, story: Story) -> None:
        """The printed loop of the quickstart: an episode whose agent failed is given up, and the
        next one begins.
        """
        acknowledged = self.acknowledged[story.name]
        self.at_work.add(remote.id)
        goal, deadline = len(acknowledged) + PAIR * story.pairs, time.monotonic() + PATIENCE_S
        while len(acknowledged) < goal:
            try:
                output = execute_agent(story.name, remote.begin_episode(task=story.name))
                acknowledged.append(remote.end_episode(output).episode_id)
                self.deeds.done()
            except Exception:
                self.given_up += 1
                if time.monotonic() > deadline:
                    raise
        self.at_work.discard(remote.id)

    def _nap(self, remote: TinkerScript) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with closing(self._connect()) as transport:
            while remote.status().state != SessionState.SUSPENDED and time.monotonic() < deadline:
                with suppress(TinkerScriptError):  # 409 for as long as it is not ready
                    transport.request(
                        "POST", f"/v1/sessions/{remote.id}/suspend", response=SessionView
                    )
                remote.pause(0.5)

    def _export(self, remote: TinkerScript, story: Story) -> None:
        target = self.folder / "tuned" / story.name
        tuned = remote.download_tuned_model(target, timeout_s=PATIENCE_S, progress=False)
        if tuned.step != story.pairs:
            self.wrong.append(
                f"{story.name}: step {tuned.step} was exported after {story.pairs} pairs"
            )
        asyncio.run(check_weights(self.server, remote.id, remote.config, target))

    def _strike(self) -> None:
        for kill in self.kills:
            if not self.deeds.reached(kill.after):
                raise AssertionError(f"the storm ended before {kill}")
            time.sleep(kill.delay_s)
            session_id = self.server.kill_one(
                kill.whom, lambda running, kill=kill: self._choose(running, kill)
            )
            self.killed[session_id or ""] += 1
            self.struck.append(kill.whom)
            print(f"  after {self.deeds.count} deeds: {kill.whom} {session_id or ''}", flush=True)

    def _choose(self, running: list[str], kill: Kill) -> str | None:
        allowed = [session_id for session_id in running if self.killed[session_id] < KILLS_EACH]
        if kill.at_work:
            allowed = [
                session_id for session_id in allowed if session_id in self.at_work
            ] or allowed
        return allowed[int(kill.pick * len(allowed))] if allowed else None

    def check(self) -> list[Books]:
        """Read all books; every broken promise goes to ``wrong``."""
        with suppress(AssertionError):
            until(lambda: not self.server.runtimes(), "every runtime has ended")
        left = self.server.runtimes()
        self.wrong += [
            f"a runtime of {session_id} is left, process {pid}" for session_id, pid in left.items()
        ]
        transport = self._connect()
        views = list(session_list(transport))
        transport.close()
        self.wrong += names_problems(
            [story.name for story in self.stories], [view.name for view in views]
        )
        kinds = {story.name: story.kind for story in self.stories}
        leases, held = self.server.spans(), self.server.held()
        read = [
            self._books(view, kinds.get(view.name, ""), leases.get(view.id, []), held)
            for view in views
        ]
        for books in read:
            self.wrong += [
                f"{books.name} ({books.story}): {problem}" for problem in problems(books)
            ]
        return read

    def _books(self, view: SessionView, kind: str, leases: list, held: set[str]) -> Books:
        volume = self.server.volume(view.id)
        moves = [
            Move(data["from"], data["to"], data["reason"], datetime.fromisoformat(event["at"]))
            for event in self.server.events(view.id, EventKind.STATE)
            if (data := event["data"])["from"] != data["to"]  # else its phase alone is another
        ]
        books = Books(
            name=view.name, story=kind, state=view.state, moves=moves, shown=view.accounting, leases=leases,
            steps=[event["data"]["step"] for event in self.server.events(view.id, EventKind.METRIC)],
            lives=(volume / "lives").read_text().split() if (volume / "lives").exists() else [],
            doubled=(volume / "doubled").exists(), held=view.id in held, killed=self.killed[view.id],
            acknowledged=self.acknowledged.get(view.name, []),
        )  # fmt: skip
        if (volume / "journal.sqlite3").exists():
            books.ledger, books.fates = ledger(self.server, view.id)
        return books


def table(storm: Storm, read: list[Books], took_s: float) -> str:
    """What happened, in figures."""
    ends, struck = Counter(books.state for books in read), Counter(storm.struck)
    lives = sum(len(books.lives) for books in read)
    gaps = [_gaps_s(books) for books in read]
    back = sorted(sum(gaps, []))
    rows = [
        ("sessions", f"{len(read)}: " + ", ".join(f"{count} {state}" for state, count in sorted(ends.items()))),
        ("kills", f"{len(storm.struck)}: " + ", ".join(f"{count} {whom}" for whom, count in sorted(struck.items()))),
        ("runtimes that lived", f"{lives}, under {sum(len(books.leases) for books in read)} leases"),
        ("sessions whose runtime died and came back", str(sum(map(bool, gaps)))),
        ("from a death seen to ready again, s", f"median {median(back):.1f}, most {back[-1]:.1f}" if back else "-"),
        ("episodes acknowledged", str(sum(len(books.acknowledged) for books in read))),
        ("episodes begun", str(sum(books.ledger.begun for books in read))),
        ("agents that failed and began another", str(storm.given_up)),
        ("steps", str(sum(len(books.steps) for books in read))),
        ("deeds", str(storm.deeds.count)),
        ("seconds", f"{took_s:.0f}"),
        ("broken promises", str(len(storm.wrong))),
    ]  # fmt: skip
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _gaps_s(books: Books) -> list[float]:
    """Seconds from each death of a runtime, as the reconciler saw it, to the session's next
    readiness.
    """
    gaps, since = [], None
    for move in books.moves:
        if move.target == "queued" and move.reason.startswith(DIED):
            since = since or move.at
        elif move.target == "ready" and since:
            gaps.append((move.at - since).total_seconds())
            since = None
    return gaps


def explain(storm: Storm, read: list[Books]) -> str:
    """To find out what went wrong: the sentences, and the whole story of the sessions in them."""
    said = ["", *storm.wrong]
    for books in [
        books for books in read if any(wrong.startswith(books.name) for wrong in storm.wrong)
    ][:5]:
        session_id = storm.ids.get(books.name, "")
        log = storm.server.volume(session_id) / "runtime.log"
        lines = (
            log.read_text(errors="replace").splitlines()[-20:]
            if session_id and log.exists()
            else []
        )
        said += [
            "",
            repr(books),
            *(f"{move.at} {move.source} -> {move.target}: {move.reason}" for move in books.moves),
        ]
        said += [f"  {line[:300]}" for line in lines]
    return "\n".join(said)


def main() -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=4, help="runtimes that may run at a time")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**31), help="draws the storm"
    )
    wanted = parser.parse_args()
    again = f"--sessions {wanted.sessions} --kills {wanted.kills} --at-once {wanted.at_once} --seed {wanted.seed}"
    print(again, flush=True)
    faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True)
    stories, kills = storm_draw(wanted.sessions, wanted.kills, wanted.seed)
    folder = Path(tempfile.mkdtemp(prefix="session-storm-"))
    server, began = StormServer(folder, at_once=wanted.at_once), time.monotonic()
    storm = Storm(server, stories, kills, folder)
    try:
        server.start()
        storm.run(at_once=wanted.at_once)
        read = storm.check()
        said = explain(storm, read) if storm.wrong else ""
    finally:
        try:
            server.close()
        except AssertionError as left:
            storm.wrong.append(f"after the server's end: {left}")
    print(table(storm, read, time.monotonic() - began))
    if storm.wrong:
        print(f"{said or storm.wrong}\nFAILED; everything of it is in {folder}; again: {again}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
