"""What a session, a step, an episode, a call and a watcher cost the control plane: CPU time by
process, rows and bytes.

    .venv/bin/python tests/benchmarks/capacity.py                  on SQLite
    .venv/bin/python tests/benchmarks/capacity.py --postgres       on a PostgreSQL of its own
    ... --sessions 2000 --day 600 --traffic 0.001                  sessions of a day in ten minutes: capacity_day.py
    ... --sessions 100000 --day 3600 --share 0.05                  each twentieth of the sessions of such a day
    ... --already 100000                                           and the rows of so many before: capacity_rows.py
    ... --statements 10                                            PostgreSQL's dearest: capacity_statements.py

The web server, the lease process and the database are real ones; runtimes are requests that this
program sends under their leases, and their gateway returns a fixed body. CPU time is that of the
process alone, the database's own where it is another process. Then, for a day of sessions like
``DAY``, what each process and the database would take: multiplied, not measured.
"""

import argparse
import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import capacity_statements
import psutil
import rest
import uvloop
from serving import ROOT, free_port, running

# A session of a day: hours with a runtime, steps, episodes, calls of all episodes, hours that
# somebody watches it.
DAY = {
    "session": 1, "register": 1, "first": 1, "stop": 1, "heartbeat": 3240, "sample": 360, "step": 100, "episode": 3200,
    "call": 9600, "watcher": 360,
}  # fmt: skip
WRITES = ("session", "register", "first", "stop", "step", "row")  # what adds rows that stay
SIZES = (100, 10_000, 1_000_000)
ROWS_AT_ONCE = 32
WATCH_S = 8.0
WARM_UP = 10  # sessions
STEP = {
    "step": 1, "reward_mean": 0.1, "reward_std": 0.1, "loss": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5,
    "kl_engine": 0.0, "entropy": 1.0, "clip_fraction": 0.0, "episodes": 32, "groups": 4, "groups_skipped": 0,
    "tokens_trained": 10_000, "tokens_computed": 20_000, "staleness_max": 0, "completion_length_mean": 400.0,
    "rollout_s": 1.0, "train_s": 1.0, "handover_s": 0.1,
}  # fmt: skip
# Of a machine with one GPU, as every tenth heartbeat has it.
SAMPLE = {
    "cpu_cores": 1.9, "cores": 2.0, "memory_bytes": 9_000_000_000, "memory_used_bytes": 11_000_000_000,
    "memory_total_bytes": 24_000_000_000, "disk_free_bytes": 400_000_000_000, "disk_total_bytes": 900_000_000_000,
    "gpus": [{"name": "a GPU", "busy": 0.9, "memory_bytes": 60_000_000_000, "memory_total_bytes": 80_000_000_000}],
}  # fmt: skip
TEXT = "what the agent said, as the row of its episode has it; " * 8
WORDS = [
    "the", "agent", "reads", "number", "between", "answer", "because", "left", "question", "try", "seven", "forty",
    "wrong", "guess", "higher", "lower", "again", "table", "result", "of", "and", "what", "tool", "returns", "file",
]  # fmt: skip
Request = tuple[str, str, str, dict[str, Any] | None]  # method, URL, bearer, body


@dataclass(frozen=True)
class Cost:
    """Of one unit: CPU milliseconds by process, bytes that the database grew by."""

    cpu_ms: dict[str, float]
    size_bytes: float


class Measured:
    """The processes under measurement, and how large the database is."""

    def __init__(self, pids: dict[str, int], database_bytes: Callable[[], int]) -> None:
        self._pids, self.database_bytes = pids, database_bytes
        self.costs: dict[str, Cost] = {}

    def cpu_s(self) -> dict[str, float]:
        """What each has used."""
        return {name: _cpu_s(pid) for name, pid in self._pids.items()}

    async def take(self, unit: str, count: float, work: Awaitable[None]) -> None:
        """Do ``work``, which is ``count`` units."""
        before, size = self.cpu_s(), self.database_bytes()
        began = time.monotonic()
        await work
        wall_s = time.monotonic() - began
        cpu_ms = {
            name: 1000 * (used_s - before[name]) / count for name, used_s in self.cpu_s().items()
        }
        self.costs[unit] = Cost(cpu_ms, (self.database_bytes() - size) / count)
        told = "  ".join(f"{name} {ms:8.3f}" for name, ms in cpu_ms.items())
        print(
            f"{unit:10}{count:10.0f}  {told}  {self.costs[unit].size_bytes:10.0f} B   {wall_s:6.1f} s",
            flush=True,
        )


def answer(number: int) -> str:
    """What an agent said in the end, another text for each episode, as long as TEXT."""
    return " ".join(random.Random(number).choices(WORDS, k=78))


async def send(requests: list[Request], *, clients: int = 4) -> list[Any]:
    """Every request once, ``clients`` at a time; the bodies. Raises SystemExit when one fails."""
    waiting, bodies = iter(requests), []
    async with aiohttp.ClientSession() as http:

        async def client() -> None:
            for method, url, bearer, body in waiting:
                async with http.request(
                    method, url, json=body, headers={"Authorization": f"Bearer {bearer}"}
                ) as got:
                    text = await got.text()
                    if got.status >= 300:
                        raise SystemExit(f"{method} {url}: {got.status} {text[:500]}")
                    bodies.append(json.loads(text) if text else None)

        await asyncio.gather(*(client() for _ in range(clients)))
    return bodies


async def watch(web: str, key: str, sessions: list[str]) -> None:
    """A watcher of each session for ``WATCH_S`` seconds."""
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http,
        asyncio.TaskGroup() as group,
    ):

        async def watcher(session_id: str) -> None:
            async with http.ws_connect(f"{web}/ws/v1/sessions/{session_id}") as socket:
                await asyncio.sleep(WATCH_S)
                await socket.close()

        for session_id in sessions:
            group.create_task(watcher(session_id))


async def measure(
    measured: Measured, web: str, lease: str, key: str, run: Callable[[list[str]], Any], n: int
) -> None:
    """Every unit, in the order of a session's life. ``run`` gives sessions a runtime and returns
    their secrets.
    """
    create = {"base_model": "SmolLM2-135M-Instruct"}
    made: list[Any] = []

    async def sessions() -> None:
        made.extend(await send([("POST", f"{web}/v1/sessions", key, create)] * n))

    await measured.take("session", n, sessions())
    ids = [session["id"] for session in made]
    secrets = run(ids)
    leases, keys = secrets["leases"], secrets["episode_keys"]

    def of_runtimes(path: str, body: Callable[[int], dict[str, Any]], times: int) -> list[Request]:
        url = f"{lease}/v1/runtime/{path}"
        return [("POST", url, leases[i], body(k)) for k in range(times) for i in ids]

    def of_web(path: str, body: dict[str, Any] | None) -> list[Request]:
        return [("POST", f"{web}/v1/sessions/{i}/{path}", key, body) for i in ids]

    def beat(k: int) -> dict[str, Any]:
        return {"state": "ready", "phase": "waiting for episodes", "progress": k + 1}

    def entry(k: int) -> dict[str, Any]:
        return {
            "entries": [{"key": f"step-{k + 1}", "kind": "metric", "data": STEP | {"step": k + 1}}]
        }

    def episodes(k: int) -> dict[str, Any]:
        common = {"task": "a task", "group_key": "a task", "fate": "trained", "reward": 0.5, "begun_at": 1.0,
                  "prompt": TEXT, "calls": 3, "sampled_tokens": 300, "trained_step": 1}  # fmt: skip
        numbers = range(k * ROWS_AT_ONCE, (k + 1) * ROWS_AT_ONCE)
        rows = [
            {"episode_id": f"ep_{at}", "seq": at, "answer": answer(at), **common} for at in numbers
        ]
        return {"rows": rows}

    async def done(requests: list[Request]) -> None:
        await send(requests)

    register = [("POST", f"{lease}/v1/runtime/register", leases[i], None) for i in ids]
    await measured.take("register", n, done(register))
    await measured.take("first", n, done(of_runtimes("heartbeat", beat, 1)))
    await measured.take("heartbeat", 5 * n, done(of_runtimes("heartbeat", beat, 5)))
    await measured.take(
        "sample", n, done(of_runtimes("heartbeat", lambda k: beat(k) | {"resources": SAMPLE}, 1))
    )
    await measured.take("step", 3 * n, done(of_runtimes("report", entry, 3)))
    await measured.take("row", 2 * n * ROWS_AT_ONCE, done(of_runtimes("episodes", episodes, 2)))
    output = {"output": {"reward": 1.0, "metrics": {"turns": 3}}}
    await measured.take("begin", n, done(of_web("episodes", {"task": "t"})))
    await measured.take("end", n, done(of_web("episodes/ep_1/end", output)))
    call = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
    calls: list[Request] = [
        ("POST", f"{web}/openai/v1/chat/completions", keys[i], call) for i in ids * 5
    ]
    await measured.take("call", len(calls), done(calls))
    watched = ids[: min(50, n)]
    await measured.take("watcher", len(watched) * WATCH_S, watch(web, key, watched))
    await measured.take("stop", n, done(of_web("stop", None)))


def a_day(costs: dict[str, Cost]) -> None:
    """What follows for a day of sessions like ``DAY``: cores on average, and gigabytes that the
    database grows by.
    """
    parts = {"episode": ("begin", "end", "row")}
    print(
        f"\n{'sessions a day':>16}  cores on average by process, and growth of the database (multiplied)"
    )
    for sessions in SIZES:
        cores: dict[str, float] = {}
        grown = 0.0
        for unit, count in DAY.items():
            for part in parts.get(unit, (unit,)):
                grown += sessions * count * costs[part].size_bytes if part in WRITES else 0
                for name, ms in costs[part].cpu_ms.items():
                    cores[name] = cores.get(name, 0.0) + sessions * count * ms / 86_400_000
        told = "  ".join(f"{name} {value:10.2f}" for name, value in cores.items())
        print(
            f"{sessions:>16,}  {told}  {grown / 1e9:10.2f} GB; runtimes at once {sessions / 24:,.0f}"
        )


@contextmanager
def database(
    options: argparse.Namespace, stack: ExitStack, folder: Path
) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Settings and processes of the database."""
    if not options.postgres:
        yield {}, {}
        return
    sys.path.insert(0, str(ROOT / "tests"))
    import on_postgres

    tools = on_postgres.postgres_tools()
    if tools is None:
        raise SystemExit("PostgreSQL is not on this machine (Debian: apt-get install postgresql)")
    folder.chmod(0o755)
    more = capacity_statements.OPTIONS if options.statements else ""
    url = stack.enter_context(on_postgres.postgres(tools, folder, more))
    server = int((folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    yield {"DATABASE_URL": url}, {"postgres": server}


def options_read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument(
        "--day", type=float, help="seconds in which a day of --sessions sessions passes"
    )
    parser.add_argument(
        "--traffic",
        type=float,
        default=0.001,
        help="of what a session does in its hour, with --day",
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of those sessions that come, with --day"
    )
    parser.add_argument(
        "--already", type=int, default=0, help="sessions of before, with --day and --postgres"
    )
    parser.add_argument(
        "--statements",
        type=int,
        default=0,
        help="how many of the dearest to print, with --postgres",
    )
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    parser.add_argument("--store", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.already and (options.day is None or not options.postgres):
        parser.error("--already needs --day and --postgres")
    if options.statements and not options.postgres:
        parser.error("--statements needs --postgres")
    return options


def main() -> None:
    options = options_read()
    if options.rows is not None:
        print(json.dumps(_rows_make(json.loads(options.rows))))
        return
    if options.store:
        _store_run()
        return
    print(
        f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}; {options.sessions} sessions"
    )
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tinkerscript-capacity-"))
        )
        of_database, pids = stack.enter_context(database(options, stack, folder))
        address = stack.enter_context(rest.gateway())
        web_port, lease_port = free_port(), free_port()
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TINKERSCRIPT_")
        }
        environment = clean | of_database | {
            "TINKERSCRIPT_DATA": str(folder / "data"), "TINKERSCRIPT_PORT": str(web_port),
            "TINKERSCRIPT_RATE_LIMIT": "1000000", "TINKERSCRIPT_WEBHOOKS_PRIVATE": "1",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "sdk", ROOT / "tests"))),
            "CAPACITY_GATEWAY": address,
        }  # fmt: skip

        def rows(ids: list[str]) -> dict[str, Any]:
            command = [sys.executable, __file__, "--rows", json.dumps(ids)]
            made = subprocess.run(
                command, env=environment, cwd=ROOT, capture_output=True, text=True
            )
            if made.returncode:
                raise SystemExit(made.stderr)
            found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
            return found

        key = rows([])["api_key"]
        if options.day is not None:
            pids["store"] = stack.enter_context(store(environment)).pid
        serve = [sys.executable, "-m", "console.server.uvicorn"]
        for name, port, command in (
            ("web", web_port, serve),
            ("lease", lease_port, [*serve, "--lease"]),
        ):
            own = environment | {"TINKERSCRIPT_PORT": str(port)}
            pids[name] = stack.enter_context(
                running(command, f"http://127.0.0.1:{port}/healthz", env=own)
            ).pid
        measured = Measured(pids, lambda: _size_bytes(folder, of_database))
        web, lease = f"http://127.0.0.1:{web_port}", f"http://127.0.0.1:{lease_port}"
        if options.day is not None:
            import capacity_day

            command = [
                sys.executable,
                str(ROOT / "tests" / "benchmarks" / "capacity_day.py"),
                str(folder),
            ]
            own = environment | {
                "TINKERSCRIPT_MAX_RUNTIMES": "1024",
                "TINKERSCRIPT_RUNTIME_SERVER_URL": lease,
            }
            log = stack.enter_context((folder / "reconciler.log").open("wb"))
            reconciler = stack.enter_context(
                ended(subprocess.Popen(command, env=own, cwd=ROOT, stdout=log, stderr=log))
            )
            pids["reconciler"] = reconciler.pid
            simulator = capacity_day.Simulator(web, lease, key, folder, gateway=address)
            if options.already:
                import capacity_rows

                print(f"the rows of {options.already} sessions of before:", flush=True)
                # The day makes a webhook of its own.
                uvloop.run(
                    simulator.day(
                        sessions=capacity_rows.SEEDS,
                        day_s=24.0,
                        traffic=options.traffic,
                        webhook=False,
                    )
                )
                capacity_rows.copy(of_database["DATABASE_URL"], options.already)
                simulator = capacity_day.Simulator(web, lease, key, folder, gateway=address)
            stack.enter_context(capacity_statements.printed(of_database, options.statements))
            capacity_day.run(
                measured, simulator, sessions=options.sessions, day_s=options.day, traffic=options.traffic,
                share=options.share, postgres=options.postgres,
            )  # fmt: skip
            return
        print("to warm up, as follows:")
        uvloop.run(measure(measured, web, lease, key, rows, WARM_UP))
        print(
            f"\n{'unit':10}{'count':>10}  CPU ms of a unit by process, growth of the database by a unit, wall time\n"
        )
        with capacity_statements.printed(of_database, options.statements):
            uvloop.run(measure(measured, web, lease, key, rows, options.sessions))
    a_day(measured.costs)


@contextmanager
def store(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The server's own object store, in a process that runs beside it."""
    command = [sys.executable, __file__, "--store"]
    with ended(
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE)
    ) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit("the object store did not start")
        yield process


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is killed at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.wait(25)


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process with its children, also of those that have ended: PostgreSQL has one
    per connection.
    """
    root = psutil.Process(pid)
    own = root.cpu_times()
    used = own.children_user + own.children_system + own.user + own.system
    for child in root.children(recursive=True):
        # it has ended meanwhile, and counts as a child that has
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            used += times.user + times.system
    return used


def _size_bytes(folder: Path, of_database: dict[str, str]) -> int:
    if not of_database:
        with closing(sqlite3.connect(folder / "data" / "console.sqlite3", timeout=20)) as books:
            return books.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()[0]
    import psycopg

    with psycopg.connect(of_database["DATABASE_URL"]) as books:
        row = books.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def _store_run() -> None:
    """In a process of its own, until it is killed; a line says that the store takes objects."""
    import django

    django.setup()
    from console.operations.backups import store_available

    with store_available():
        print("ready", flush=True)
        while True:
            time.sleep(3600)


def _rows_make(ids: list[str]) -> dict[str, Any]:
    """In a process of its own: a person with a key, or the runtimes of these sessions."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.utils import timezone

    from console.sessions.models import Session
    from console.sessions.runtime.leases import lease_issue
    from console.users.models import ApiKey, Project
    from support import factories
    from tinkerscript.wire.account import Scope
    from tinkerscript.wire.episode_key import EpisodeClaim, session_key, sign

    if not ids:
        call_command("migrate", interactive=False, verbosity=0)
        (settings.DATA / "models" / factories.BASE_MODEL).mkdir(parents=True)
        user = factories.user_make("owner")
        return {
            "api_key": factories.key_make(
                Project.objects.get(memberships__user=user), user, list(Scope)
            )
        }
    now, leases, keys = timezone.now(), {}, {}
    key_id = ApiKey.objects.get().id
    handle = {
        "launch_handle": {"launch": "simulated"},
        "launcher": "fake",
        "progress_at": now,
        "state_since": now,
    }
    for session in Session.objects.filter(id__in=ids):
        Session.objects.filter(id=session.id).update(state="provisioning", **handle)
        leases[session.id] = lease_issue(session=session)
        claim = EpisodeClaim(session.id, "ep_1", int(time.time()) + 36_000, key_id)
        keys[session.id] = sign(session_key(settings.SECRET_KEY.encode(), session.id), claim)
    Session.objects.filter(id__in=ids).update(
        address=os.environ["CAPACITY_GATEWAY"], gateway_port=None
    )
    return {"leases": leases, "episode_keys": keys}


if __name__ == "__main__":
    main()
