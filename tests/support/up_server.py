"""``manage.py up`` as a process, in a folder of its own, for tests of the whole server."""

import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from console.scheduling import processes
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
START_S = 120


class Server:
    """One machine's folder, and the ``up`` that serves it. ``program`` is its command line, up to
    "up".
    """

    def __init__(self, folder: Path, program: Sequence[str] = ("manage.py",)) -> None:
        self.program = program
        self.data = folder / "data"
        self.port = free_port()
        private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        self.environment = clean | {
            "TINKERSCRIPT_DATA": str(self.data), "TINKERSCRIPT_PORT": str(self.port),
            "TINKERSCRIPT_WARM": "0",  # nothing is imported for sessions that there are not
        }  # fmt: skip
        self.log = (folder / "up.log").open("ab")
        self.up: subprocess.Popen[bytes] | None = None
        self.lines: list[str] = []

    def start(self) -> subprocess.Popen[bytes]:
        self.up = self.manage("up", stdout=subprocess.PIPE, stderr=self.log)
        self.lines = []
        deadline, text = time.monotonic() + START_S, b""
        while b"ready " not in text or not text.endswith(b"\n"):
            readable, _, _ = select.select(
                [self.up.stdout], [], [], max(0, deadline - time.monotonic())
            )
            chunk = os.read(self.up.stdout.fileno(), 4096) if readable else b""
            assert chunk, f"up did not become ready: {text!r}"
            text += chunk
        self.lines = text.decode().splitlines()
        return self.up

    def manage(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, *self.program, *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, **streams)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=60
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.up.send_signal(number)
        code = self.up.wait(60)
        self.up.stdout.close()
        return code

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/healthz", timeout=25
            ) as answer:
                return json.load(answer) == {"status": "ok"}
        except OSError:
            return False

    def left(self) -> list[int]:
        """Every process that was started with our folder in its environment."""
        entry = f"TINKERSCRIPT_DATA={self.data}"
        return [
            p.pid
            for p in processes.processes_list()
            if p.state not in "ZX" and processes.has_environment(p.pid, entry)
        ]

    def child(self, name: str) -> int:
        return json.loads((self.data / "run" / f"{name}.json").read_text())["pid"]
