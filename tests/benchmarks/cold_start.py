"""From ``TinkerScript(...)`` to the first token, and from a suspended session to the first token,
by part.

    .venv/bin/python tests/benchmarks/cold_start.py [--model tiny] [--rounds 1]
    .venv/bin/python tests/benchmarks/cold_start.py --before FOLDER     and another checkout, in turns
    .venv/bin/python tests/benchmarks/cold_start.py --nothing --idle 20 and with no runtime that waits; idle before each
    .venv/bin/python tests/benchmarks/cold_start.py --steps 1           and steps are trained before it is suspended

Each round is a server of its own over an empty folder, with every part real: the server's start is
timed apart, then a session is created, gets its first token by a streamed call, is suspended, and
is woken by the next episode. With ``--steps`` that is a session with a state, whose weights and
moments the next runtime loads. The model is the bundled one, which is unpacked before; ``tiny`` is
a random one of 80,000 weights, so that what is left is not the model. A part ends when the
session's record shows the next one; it is read every 20 ms.

A server keeps a warm runtime that imports its libraries (TINKERSCRIPT_WARM), which ``--idle`` gives
time to do so; ``--nothing`` measures a server without it too.

"CPU seconds" are those of the runtime's processes from the request to the end of a first answer of
8 tokens: they tell starts apart where other work slows the clock. "server" is `manage.py up` until
it serves. Page cache and compile caches are warm: run it once before.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai  # noqa: F401 - an agent has imported its client before it begins; here that took a second
import psutil
from serving import ROOT, free_port

sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from support.tiny_model import tiny_model_make  # noqa: E402
from tinkerscript import TinkerScript, WorkflowOutput  # noqa: E402

BUNDLED = "SmolLM2-135M-Instruct"
GROUP = 2  # episodes of a step
MESSAGES = [{"role": "user", "content": "Say a word."}]
Parts = dict[str, float]  # seconds by part, in the order in which they came


@dataclass
class Server:
    base_url: str
    key: str
    start_s: float
    data: str

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds of each process of its runtimes, by pid: of their sessions, since a title
        hides the engine's environment.
        """
        mark, sessions, found = f"{self.data}/", set(), {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if process.environ().get("TINKERSCRIPT_RUNTIME_DIR", "").startswith(mark):
                    sessions.add(os.getsid(process.pid))
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) in sessions:
                    times = process.cpu_times()
                    found[process.pid] = times.user + times.system
        return found


@contextmanager
def served(root: Path, model: Path, *, is_warm: bool) -> Iterator[Server]:
    """`manage.py up` of a checkout over an empty folder."""
    with tempfile.TemporaryDirectory(prefix="tinkerscript-benchmark-") as data:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TINKERSCRIPT_")
        } | {
            "TINKERSCRIPT_DATA": data,
            "TINKERSCRIPT_PORT": str(free_port()),
            "TINKERSCRIPT_MODELS": f"measured={model}",
            "TINKERSCRIPT_WARM": "1" if is_warm else "0",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": os.pathsep.join(map(str, (root, root / "sdk"))),
        }
        began = time.monotonic()
        server = subprocess.Popen(
            [sys.executable, "manage.py", "up"], cwd=root, env=environment, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            ready = next(line for line in server.stdout if line.startswith("ready "))
            start_s = time.monotonic() - began
            command = [sys.executable, "manage.py", "create_api_key", "alice@example.com"]
            key = subprocess.run(
                command, cwd=root, env=environment, check=True, capture_output=True, text=True
            ).stdout
            yield Server(ready.split()[1], key.strip(), start_s, data)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(120)


@dataclass
class Record:
    """What the record of a session shows from now on: when each part was first seen."""

    server: Server
    seen: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before, self.began = self.server.cpu_s(), time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def parts(self) -> Parts:
        """Until now; the last part is the first token's."""
        self._over.set()
        self._thread.join()
        marks = [(self.began, "the request"), *self.seen, (time.monotonic(), "")]
        found: Parts = {}
        for (start, name), (end, _) in zip(marks, marks[1:], strict=False):
            found[name] = found.get(name, 0.0) + end - start
        used = sum(each - self._before.get(pid, 0.0) for pid, each in self.server.cpu_s().items())
        return found | {"all": marks[-1][0] - self.began, "CPU seconds": used}

    def _read(self) -> None:
        headers = {"Authorization": f"Bearer {self.server.key}"}
        with httpx.Client(base_url=self.server.base_url, headers=headers, timeout=30) as http:
            while not self._over.wait(0.02):
                rows = http.get("/v1/sessions").json()["items"]
                if rows:
                    part = {"ready": "first token", "loading": rows[0]["phase"] or "loading"}
                    name = part.get(rows[0]["state"], rows[0]["state"])
                    if not self.seen or self.seen[-1][1] != name:
                        self.seen.append((time.monotonic(), name))


def first_token(session: TinkerScript) -> None:
    """Begin an episode and wait for the first piece of its first answer."""
    with session.begin_episode(task="t") as episode:
        stream = episode.openai().chat.completions.create(
            model=episode.model, messages=MESSAGES, max_tokens=8, stream=True
        )
        next(piece for piece in stream if piece.choices and piece.choices[0].delta.content)
        for _ in stream:
            pass
        episode.abandon("measured")


def steps_train(session: TinkerScript, count: int) -> None:
    """Play a group for each of ``count`` steps, and wait for the last."""
    for step in range(count):
        for attempt in range(GROUP):
            with session.begin_episode(task=f"step {step}") as episode:
                episode.openai().chat.completions.create(
                    model=episode.model, messages=MESSAGES, max_tokens=8
                )
                episode.end(WorkflowOutput(reward=float(attempt)))
    while session.status().policy_version < count:
        time.sleep(0.1)


def measure(
    root: Path, model: Path, *, is_warm: bool, idle_s: float, steps: int
) -> tuple[Parts, Parts]:
    """The parts of a cold start (the server's own too) and of a woken session."""
    with served(root, model, is_warm=is_warm) as server:
        time.sleep(idle_s)
        record = Record(server)
        session = TinkerScript(
            base_model="measured", base_url=server.base_url, api_key=server.key, max_context_length=256, max_tokens=8,
            grpo_n=GROUP, tasks_per_batch=1,
        )  # fmt: skip
        first_token(session)
        cold = {"server": server.start_s} | record.parts()
        steps_train(session, steps)
        suspend(server, session)
        while session.status().state != "suspended":
            time.sleep(0.1)
        time.sleep(idle_s)
        record = Record(server)
        first_token(session)
        woken = record.parts()
        session.close()
        return cold, woken


def suspend(server: Server, session: TinkerScript) -> None:
    """By its REST request."""
    path = f"{server.base_url}/v1/sessions/{session.id}/suspend"
    httpx.post(
        path, headers={"Authorization": f"Bearer {server.key}"}, timeout=60
    ).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=[BUNDLED, "tiny"], default=BUNDLED)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--before", type=Path, help="another checkout, with requirements of its own or this one's"
    )
    parser.add_argument(
        "--nothing", action="store_true", help="this checkout with no runtime that waits, too"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="trained before the session is suspended"
    )
    parser.add_argument("--idle", type=float, default=0.0, help="seconds before each start")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends too
    roots = [("this checkout", ROOT, True)]
    roots += [("before", options.before.resolve(), True)] if options.before else []
    roots += [("nothing waits", ROOT, False)] if options.nothing else []
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        if options.model == "tiny":
            tiny_model_make(model)
        else:
            subprocess.run(
                [sys.executable, "-m", "gpu_runtime.bundled_model", model], cwd=ROOT, check=True
            )
        for _ in range(options.rounds):
            for label, root, is_warm in roots:
                for kind, parts in zip(
                    ("cold", "woken"),
                    measure(root, model, is_warm=is_warm, idle_s=options.idle, steps=options.steps),
                    strict=True,
                ):
                    print(
                        label,
                        kind,
                        {part: round(seconds, 1) for part, seconds in parts.items()},
                        flush=True,
                    )
                    for part, seconds in parts.items():
                        found[label, kind][part].append(seconds)
    for (label, kind), parts in found.items():
        print(f"\n{options.model}, {kind}, {label}: seconds, median of {options.rounds}")
        for part, seconds in parts.items():
            print(f"  {part:40} {statistics.median(seconds):6.1f}")


if __name__ == "__main__":
    main()
