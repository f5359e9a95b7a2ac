"""A day of many sessions in less than a day: what the control plane takes, beside the table of
docs/capacity.md.

    .venv/bin/python tests/benchmarks/capacity.py --sessions 100000 --day 3600 --postgres

Web server, lease process, reconciler, object store and database are real ones. Sessions are created
evenly over ``--day`` seconds, queue, and are started by the reconciler, whose launcher hands each
lease to this program: a simulated runtime (capacity_runtime.py) registers, beats, reports, stores
and ends when its session is stopped. In between people begin and end episodes, call the relay, one
call in STREAMED for a stream of pieces, and watch. Each SUSPENDED-th session is suspended once,
woken by the next begin, and has a second runtime then. Each move of a session goes to a webhook. A
session lives for an hour of that day, less where more than MOST_AT_ONCE would run at once;
``--share 0.05`` has each twentieth of them come, in everything else the same. Of what a session
does in its hour (DAY) it does the share ``--traffic``, each thing once at least, but for
heartbeats: those are real ones of its life, at the pace that the server asks for, with its
machine's sample each ten seconds and the counts of its episodes in all. Nothing here is multiplied.
A real day has more: phases of steps, logs, Redis; and weights, which are small here.
"""

import asyncio
import json
import os
import random
import re
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from capacity import DAY, ROWS_AT_ONCE, STEP, TEXT, Measured, answer
from capacity_runtime import Simulated
from serving import ROOT

MOST_AT_ONCE = 1000  # TINKERSCRIPT_MAX_RUNTIMES has a bound
TOLD_S = 120.0
CLIENTS = 64  # requests of people under way at once: more would only wait in the server
SUSPENDED = 20  # one session in so many is suspended and woken
STREAMED = 3  # one call in so many
END_S = 90.0  # within which the last runtime of a session that was stopped is told to end
WRONG = 1.33  # times the table, or less than one part in it
# How the rows of the table begin, by what is counted here.
ROWS = {
    "session": "session created",
    "heartbeat": "heartbeat (each",
    "sample": "heartbeat with a sample",
    "step": "step reported",
    "row": "episode's row",
    "begin": "`begin_episode`",
    "end": "`end_episode`",
    "call": "call through",
    "register": "runtime registers",
    "first": "first heartbeat that is ready",
    "stop": "session stopped",
    "watcher": "a second of a watcher",
}


class Launcher:
    """Hands the lease of what it starts to the simulator, by lines of a file; another names those
    that ended.
    """

    name = "process"

    def __init__(self, folder: Path) -> None:
        self._launched, self._ended, self._gone = folder / "launched", folder / "ended", set[str]()
        self._read = 0

    def new_handle(
        self, *, session_id: str, instance_id: str, folder: Path, gpus: int = 0, devices: Any = ()
    ) -> dict[str, Any]:
        launch = f"{session_id}.{uuid.uuid4().hex}"
        return {"launch": launch, "folder": str(folder), "gpus": gpus, "devices": []}

    def start(self, handle: dict[str, Any], *, environment: Any) -> dict[str, Any]:
        with self._launched.open("a") as lines:
            lines.write(f"{handle['launch']} {environment['TINKERSCRIPT_LEASE']}\n")
        return handle

    def others_end(self, handle: dict[str, Any]) -> None:
        """Nothing is left of one that was replaced."""

    def inspect(self, handle: dict[str, Any]) -> Any:
        from console.scheduling.launchers.protocol import RuntimeStatus

        if self._ended.exists() and self._ended.stat().st_size > self._read:
            with self._ended.open() as lines:
                lines.seek(self._read)
                self._gone.update(lines.read().split())
                self._read = lines.tell()
        return RuntimeStatus("gone" if handle["launch"] in self._gone else "running")

    def address(self, handle: dict[str, Any], *, port: int) -> str:
        return os.environ["CAPACITY_GATEWAY"]

    def stop(self, handle: dict[str, Any], *, grace_s: float) -> None:
        """It ends by itself."""

    def logs(self, handle: dict[str, Any], *, lines: int) -> list[str]:
        return []


def reconcile(folder: Path) -> None:
    """The reconciler's own program, with the launcher above."""
    import django

    django.setup()
    from django.core.management import call_command

    from console.management.commands import reconcile as command

    command.launcher_get = lambda: Launcher(folder)
    command.warm_get = lambda launcher: None
    call_command("reconcile")


class Simulator:
    """Everybody outside the control plane."""

    def __init__(self, web: str, lease: str, key: str, folder: Path, *, gateway: str) -> None:
        """``gateway``: where runtimes say that theirs is."""
        self._web, self._lease, self._key, self._folder, self._gateway = (
            web,
            lease,
            key,
            folder,
            gateway,
        )
        self.done: Counter[str] = Counter()
        self.took_s: dict[str, list[float]] = defaultdict(list)
        self.failed: Counter[str] = Counter()
        self.late_s = 0.0
        self.pace_s, self.stored_bytes = 0.0, 0
        self._launched: defaultdict[str, asyncio.Queue[tuple[str, str]]] = defaultdict(
            asyncio.Queue
        )
        self._registered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._people = asyncio.Semaphore(CLIENTS)

    async def day(
        self,
        *,
        sessions: int,
        day_s: float,
        traffic: float,
        share: float = 1.0,
        webhook: bool = True,
    ) -> float:
        """Simulate it; how long it took. ``webhook``: moves go to one that is made for it."""
        life_s = min(day_s / 24, MOST_AT_ONCE * day_s / sessions)
        coming = max(1, round(sessions * share))
        began = time.monotonic()
        async with aiohttp.ClientSession(connector=self._connector()) as self._http:
            beside = [asyncio.create_task(self._launches()), asyncio.create_task(self._told(began))]
            if webhook:
                hook = {"url": f"http://{self._gateway}/hook", "topics": ["session.state"]}
                await self._ask("webhook", "POST", "/v1/webhooks", hook)
            async with asyncio.TaskGroup() as group:
                for number in range(coming):
                    at = began + number * day_s / coming
                    await asyncio.sleep(max(0.0, at - time.monotonic()))
                    self.late_s = max(self.late_s, time.monotonic() - at)
                    group.create_task(
                        self._session(
                            life_s, traffic, is_suspended=number % SUSPENDED == SUSPENDED - 1
                        )
                    )
            for task in beside:
                task.cancel()
        return time.monotonic() - began

    @staticmethod
    def _connector() -> aiohttp.TCPConnector:
        """Connections are kept for less time than the server keeps them: none is used as it is
        being closed.
        """
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)

    async def _told(self, began: float) -> None:
        """Print how far it is, each TOLD_S."""
        while True:
            await asyncio.sleep(TOLD_S)
            made, stopped, load = self.done["session"], self.done["stop"], os.getloadavg()[0]
            failed = sum(self.failed.values())
            told = f"{made} made, {stopped} stopped, {failed} requests failed, load {load:.1f}"
            print(f"  {time.monotonic() - began:5.0f} s: {told}", flush=True)

    async def _session(self, life_s: float, traffic: float, *, is_suspended: bool) -> None:
        asked = {"base_model": "SmolLM2-135M-Instruct"}
        made = await self._ask("session", "POST", "/v1/sessions", asked, once=uuid.uuid4().hex)
        if made is None:
            return
        session = Simulated(made["id"])
        runtimes = asyncio.create_task(self._runtimes(session))
        try:
            await self._registered[session.id].wait()
            until = time.monotonic() + life_s
            plan = self._plan(session, traffic)
            if is_suspended:
                plan.insert(len(plan) // 2, partial(self._suspend, session))
            # a refusal is counted among what failed
            for number, act in enumerate(plan if session.key else ()):
                await asyncio.sleep(max(0.0, (until - time.monotonic()) / (len(plan) - number)))
                await act()
        finally:
            await self._ask("stop", "POST", f"/v1/sessions/{session.id}/stop")
            _, late = await asyncio.wait([runtimes], timeout=END_S)
            if late:
                self.failed["runtime not told to end"] += 1
                runtimes.cancel()

    async def _suspend(self, session: Simulated) -> None:
        """Let its runtime go; the episode that follows wakes it."""
        await self._ask("suspend", "POST", f"/v1/sessions/{session.id}/suspend")
        await asyncio.sleep(2.0)
        await self._episode(session, calls=0)

    async def _episode(self, session: Simulated, *, calls: int) -> None:
        of = f"/v1/sessions/{session.id}/episodes"
        if await self._ask("begin", "POST", of, {"task": "t"}) is not None:
            session.count(begun=1, open=1)
        call = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
        for number in range(calls):
            is_stream = number % STREAMED == STREAMED - 1
            unit, asked = ("stream", call | {"stream": True}) if is_stream else ("call", call)
            session.called()
            await self._ask(unit, "POST", "/openai/v1/chat/completions", asked, bearer=session.key)
        output = {"output": {"reward": 1.0, "metrics": {"turns": 3}}}
        if await self._ask("end", "POST", f"{of}/ep_1/end", output) is not None:
            session.count(open=-1, trained=1)

    def _plan(self, session: Simulated, traffic: float) -> list[Callable[[], Awaitable[None]]]:
        """What people and the runtime do, in a random order: a share of what a session does in its
        hour.
        """

        def times(unit: str) -> int:
            return max(1, round(DAY[unit] * traffic))

        async def episode() -> None:
            await self._episode(session, calls=max(1, times("call") // times("episode")))

        async def step(number: int) -> None:
            entry = {"key": f"step-{number}", "kind": "metric", "data": STEP | {"step": number}}
            reported = {"entries": [entry]}
            if (
                await self._ask(
                    "step", "POST", "/v1/runtime/report", reported, bearer=session.lease
                )
                is not None
            ):
                session.status.update(policy_version=number)

        async def rows(number: int) -> None:
            common = {"task": "a task", "group_key": "a task", "fate": "trained", "reward": 0.5, "begun_at": 1.0,
                      "prompt": TEXT, "calls": 3, "sampled_tokens": 300, "trained_step": 1}  # fmt: skip
            numbers = range(number * ROWS_AT_ONCE, (number + 1) * ROWS_AT_ONCE)
            body = {
                "rows": [
                    {"episode_id": f"ep_{at}", "seq": at, "answer": answer(at), **common}
                    for at in numbers
                ]
            }
            if (
                await self._ask("rows", "POST", "/v1/runtime/episodes", body, bearer=session.lease)
                is not None
            ):
                self.done["row"] += ROWS_AT_ONCE

        async def watch() -> None:
            began = time.monotonic()
            headers = {"Authorization": f"Bearer {self._key}"}
            async with self._http.ws_connect(
                f"{self._web}/ws/v1/sessions/{session.id}", headers=headers
            ):
                await asyncio.sleep(times("watcher"))
            self.done["watcher"] += round(time.monotonic() - began)

        async def store() -> None:
            ask = partial(self._ask_of_runtime, session)
            self.stored_bytes += await session.store(
                ask, self._http, episodes=times("episode"), step=times("step")
            )

        acts: list[Callable[[], Awaitable[None]]] = [episode] * times("episode") + [watch, store]
        acts += [partial(step, number + 1) for number in range(times("step"))]
        acts += [
            partial(rows, number) for number in range(max(1, times("episode") // ROWS_AT_ONCE))
        ]
        random.shuffle(acts)
        return acts

    async def _runtimes(self, session: Simulated) -> None:
        """One after the other, as each gets the session's lease, until the session has ended."""
        reason = "suspend"
        while reason == "suspend":
            launch, session.lease = await self._launched[session.id].get()
            key = await self._key_of(session)
            session.key = key or session.key
            session.begin()
            self._registered[session.id].set()
            ask = partial(self._ask_of_runtime, session)
            reason = await session.beat(ask, self._gateway) if key else "refused"
            self.pace_s = max(self.pace_s, session.pace_s)
            with (self._folder / "ended").open("a") as lines:
                lines.write(f"{launch}\n")
        del self._launched[session.id], self._registered[session.id]

    async def _key_of(self, session: Simulated) -> str:
        """Register, as a runtime does before all else; a key of an episode, empty where it was
        refused.
        """
        from tinkerscript.wire.episode_key import EpisodeClaim, sign

        given = await self._ask("register", "POST", "/v1/runtime/register", bearer=session.lease)
        if given is None:
            return ""
        claim = EpisodeClaim(session.id, "ep_1", int(time.time()) + 36_000, "")
        return sign(bytes.fromhex(given["episode_signing_key"]), claim)

    async def _launches(self) -> None:
        """Give each lease that the reconciler's launcher wrote down to its session, with the
        launch's name.
        """
        path, read = self._folder / "launched", 0
        while True:
            if path.exists() and path.stat().st_size > read:
                with path.open() as lines:
                    lines.seek(read)
                    text = lines.read()
                whole = text.rpartition("\n")[0]
                read += len(whole) + 1 if whole else 0
                for line in whole.splitlines():
                    launch, lease = line.split()
                    self._launched[launch.partition(".")[0]].put_nowait((launch, lease))
            await asyncio.sleep(0.1)

    async def _ask_of_runtime(self, session: Simulated, unit: str, path: str, body: Any) -> Any:
        """Ask under the lease that its runtime has."""
        return await self._ask(unit, "POST", path, body, bearer=session.lease)

    async def _ask(
        self,
        unit: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        bearer: str = "",
        once: str = "",
    ) -> Any:
        """Send a request, with ``once`` as its Idempotency-Key; its body, or None where it failed,
        which is counted.
        """
        began = time.monotonic()
        of_runtime = path.startswith("/v1/runtime/")
        headers = {"Authorization": f"Bearer {bearer or self._key}"} | (
            {"Idempotency-Key": once} if once else {}
        )
        url = f"{self._lease if of_runtime else self._web}{path}"
        if of_runtime:
            status, text = await self._exchange(method, url, body, headers)
        else:
            async with self._people:
                status, text = await self._exchange(method, url, body, headers)
        self.took_s[unit].append(time.monotonic() - began)
        if status >= 300:
            self.failed[f"{unit} {status}"] += 1
            if self.failed[f"{unit} {status}"] == 1:
                print(f"{unit}: {status} {text[:300]}", flush=True)
            return None
        self.done[unit] += 1
        if unit == "stream":
            self.done["piece"] += text.count("data: ")
            return {}
        return json.loads(text) if text else {}

    async def _exchange(
        self, method: str, url: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, str]:
        try:
            async with self._http.request(method, url, json=body, headers=headers) as response:
                return response.status, await response.text()
        except aiohttp.ClientError as error:
            return 599, str(error)


def table(*, postgres: bool) -> dict[str, dict[str, float]]:
    """CPU ms of a unit by process, as docs/capacity.md has them."""
    found: dict[str, dict[str, float]] = {}
    names = {"web": 3 if postgres else 1, "lease": 4 if postgres else 2} | (
        {"postgres": 5} if postgres else {}
    )
    for line in (ROOT / "docs" / "capacity.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        unit = next((unit for unit, begin in ROWS.items() if cells[0].startswith(begin)), None)
        if unit and len(cells) == 7 and unit not in found:
            found[unit] = {name: float(number[0]) for name, at in names.items()
                           if (number := re.findall(r"^[\d.]+", cells[at]))}  # fmt: skip
    return found


def report(done: Counter[str], used_s: dict[str, float], wall_s: float, *, postgres: bool) -> None:
    """CPU seconds of each process, what they would be by the table, and where that was wrong."""
    costs = table(postgres=postgres)
    print(f"\n{'process':12}{'CPU s':>9}{'by table':>10}{'ratio':>8}{'cores':>8}")
    for name, measured in used_s.items():
        by_table = sum(done[unit] * of.get(name, 0.0) / 1000 for unit, of in costs.items())
        if not by_table:
            print(
                f"{name:12}{measured:9.1f}{'-':>10}{'':8}{measured / wall_s:8.2f}   not in the table"
            )
            continue
        ratio = measured / by_table
        wrong = "" if 1 / WRONG < ratio < WRONG else "   THE TABLE IS WRONG"
        print(
            f"{name:12}{measured:9.1f}{by_table:10.1f}{ratio:8.2f}{measured / wall_s:8.2f}{wrong}"
        )


def run(
    measured: Measured,
    simulator: Simulator,
    *,
    sessions: int,
    day_s: float,
    traffic: float,
    share: float,
    postgres: bool,
) -> None:
    """The day, and what it took."""
    import uvloop

    part = "" if share == 1 else f", of which each {1 / share:.1f}th comes"
    print(
        f"{sessions} sessions over {day_s:.0f} s{part}; {traffic:g} of a session's traffic",
        flush=True,
    )
    before, size, own = measured.cpu_s(), measured.database_bytes(), time.process_time()
    wall_s = uvloop.run(simulator.day(sessions=sessions, day_s=day_s, traffic=traffic, share=share))
    used_s = {name: used - before[name] for name, used in measured.cpu_s().items()}
    used_s["simulator"] = time.process_time() - own
    print(
        f"it took {wall_s:.0f} s, load {os.getloadavg()[0]:.1f}; sessions came {simulator.late_s:.1f} s late at most"
    )
    print(f"\n{'request':12}{'times':>9}{'median s':>10}{'99 % s':>9}")
    for unit, took in sorted(simulator.took_s.items()):
        took.sort()
        print(
            f"{unit:12}{simulator.done[unit]:9}{took[len(took) // 2]:10.3f}{took[len(took) * 99 // 100]:9.3f}"
        )
    print(
        f"heartbeats were {simulator.pace_s:.1f} s apart at most; {simulator.stored_bytes / 1e6:.1f} MB were stored"
    )
    print(
        f"failed: {dict(simulator.failed) or 'none'}; watched for {simulator.done['watcher']} s; "
        f"{simulator.done['piece']} pieces of streams"
    )
    print(f"the database grew by {(measured.database_bytes() - size) / 1e6:.1f} MB")
    report(simulator.done, used_s, wall_s, postgres=postgres)
    each_ms = {
        name: 1000 * used / max(1, simulator.done["session"]) for name, used in used_s.items()
    }
    print(
        "CPU ms of a session, all in all: "
        + "  ".join(f"{name} {ms:.0f}" for name, ms in each_ms.items())
    )


if __name__ == "__main__":
    reconcile(Path(sys.argv[1]))
