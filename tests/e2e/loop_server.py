"""A whole server of its own for a test: ``manage.py up`` over a fresh folder, whose runtimes have
fake engines.

``RealServer``: the same with real ones.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from console.scheduling import processes
from support import migrated_database
from support.ports import free_port
from support.tiny_tokenizers import build_tokenizer
from tinkerscript import TinkerScript

ROOT = Path(__file__).resolve().parents[2]
BASE_MODEL = "SmolLM2-135M-Instruct"
BUNDLED = ROOT / ".data" / "models" / BASE_MODEL
START_S, END_S = 180.0, 60.0
SCOPES = "admin"


class LoopServer:
    """``start`` and ``close``; between them ``kill``, ``terminate`` and ``start`` again over the
    same folder.
    """

    # The script of this folder that is launched; None: what `up` launches by itself.
    runtime: str | None = "runtime_with_fakes.py"

    def __init__(self, folder: Path, *, is_migrated: bool = True) -> None:
        self.data, self._logs = folder / "data", folder
        if is_migrated:
            migrated_database.for_server(self.data)
        self._model_make(self.data / "models")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL", "REDIS_URL")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(private)
        } | {
            "TINKERSCRIPT_DATA": str(self.data),
            "TINKERSCRIPT_PORT": str(port),
            "TINKERSCRIPT_WARM": "0",  # nothing is loaded before a session asks for it
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
            "PYTHONUNBUFFERED": "1",
        }
        self._leader: subprocess.Popen[str] | None = None
        self._up: subprocess.Popen[str] | None = None
        self.api_key = ""

    def _model_make(self, models: Path) -> None:
        """The base model's folder: fakes need its tokenizer alone."""
        build_tokenizer(models / BASE_MODEL)

    def start(self) -> None:
        """Return when it serves. The reconciler that launches our runtimes leads before the
        server's own is there.
        """
        if self.runtime and self._leader is None:
            script = str(Path(__file__).with_name("lead_with_fake_runtimes.py"))
            self._leader = self._spawn("leader", script, self.runtime)
            wait_for_line(self._leader, "leading")
        self._up = self._spawn("up", "manage.py", "up")
        if not self.api_key:
            self.api_key = self.make_key("alice@example.com")
        wait_for_line(self._up, "ready")

    def kill(self) -> None:
        """SIGKILL ``up``; the kernel ends its children with it."""
        self._up.kill()
        self._collect()
        until(
            lambda: self._left("console.server.uvicorn") == [] and self._left("weed") == [],
            "the children of up ended",
        )

    def terminate(self) -> None:
        """SIGTERM ``up``; it ends the runtimes too. Our reconciler pauses, as the server's own
        would end with it.
        """
        self._leader.send_signal(signal.SIGUSR1)
        until(lambda: processes.stat_get(self._leader.pid).state == "T", "it pauses", END_S)
        try:
            self._up.terminate()
            self._collect()
            left = self._left("e2e/runtime_with_fakes")
            assert left == [], left
        finally:
            self._leader.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End everything; no process of it may be left."""
        if self._leader is not None:
            self._leader.kill()
            self._leader.wait(END_S)
            self._leader.stdout.close()
        is_there = self._up is not None  # and not killed by a test that failed
        try:
            if is_there:
                self._up.terminate()
                self._collect()
                until(lambda: self._left("") == [], "every process ended")
        finally:
            for pid in self._left(""):
                self._kill(pid)

    def session(self, **options: Any) -> TinkerScript:
        """A session with small groups, unless ``options`` say otherwise."""
        small = {"grpo_n": 4, "tasks_per_batch": 2, "max_context_length": 512, "max_tokens": 16}
        waits = {"begin_timeout_s": 90, "retry_timeout_s": 90}
        return TinkerScript(
            BASE_MODEL, base_url=self.url, api_key=self.api_key, **(waits | small | options)
        )

    def sessions_stop(self) -> None:
        """Ask for the end of every session, whosever it is: what runs keeps the one place."""
        database = closing(sqlite3.connect(self.data / "console.sqlite3", timeout=30))
        with database as tables, tables:
            tables.execute("UPDATE console_session SET desired = 'stop' WHERE desired = 'run'")

    def volume(self, session_id: str) -> Path:
        """The folder of a session's runtime."""
        return self.data / "runtimes" / session_id

    def runtime_kill(self, session_id: str) -> bool:
        """SIGKILL a session's runtime; False if it had ended already."""
        return self._kill(int((self.volume(session_id) / "pid").read_text()))

    @contextmanager
    def without_store(self) -> Iterator[None]:
        """SIGKILL the object store, and again whenever ``up`` has started it anew, until the block
        ends.
        """
        over = threading.Event()

        def kill() -> None:
            while not over.wait(0.05):
                with suppress(OSError, ValueError):  # it is gone, or its handle is being written
                    self._kill(json.loads((self.data / "run" / "store.json").read_text())["pid"])

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join()

    def events(self, session_id: str, kind: str) -> list[dict[str, Any]]:
        """The record of a session, also of one that has ended."""
        return self.get(f"/v1/sessions/{session_id}/events?kind={kind}&limit=1000")["items"]

    def get(self, path: str) -> dict[str, Any]:
        """A REST answer."""
        answer = httpx.get(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.api_key}"}, timeout=30
        )
        return answer.raise_for_status().json()

    def _kill(self, pid: int) -> bool:
        """A pid may be another process's since: only what names our folder is ours. It may also
        have ended just now.
        """
        with suppress(ProcessLookupError, FileNotFoundError):
            if str(self.data).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def make_key(self, email: str) -> str:
        """A new API key of a new user."""
        made = subprocess.run(
            [sys.executable, "manage.py", "create_api_key", email, "--scopes", SCOPES],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=START_S,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def _spawn(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        with (self._logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=log,
                text=True,
            )  # fmt: skip

    def _collect(self) -> None:
        up, self._up = self._up, None
        try:
            up.wait(END_S)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait(END_S)
            said = (self._logs / "up.log").read_text()[-4000:]
            raise AssertionError(f"up did not end within {END_S:g} s; its log:\n{said}") from None
        finally:
            up.stdout.close()

    def _left(self, command: str) -> list[int]:
        """Processes of this server whose command line has ``command`` in it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
                line = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if (
                str(self.data).encode() in environment
                and command in line
                and int(folder.name) != os.getpid()
            ):
                found.append(int(folder.name))
        return found


class RealServer(LoopServer):
    """With the real engine and trainer, and the bundled model that set-up made."""

    runtime = None

    def _model_make(self, models: Path) -> None:
        models.parent.mkdir(parents=True, exist_ok=True)
        models.symlink_to(BUNDLED.parent)


def until(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> None:
    """Wait for ``condition``. Raises AssertionError after ``timeout_s``.

    Most conditions ask the server, or look at every process: fifty times a second that took half a
    core, and what is waited for went slower by it. So the longer it takes, the more seldom it is
    looked at.
    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.02
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}"
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.2)


def wait_for_line(process: subprocess.Popen[str], start_of_line: str) -> None:
    """Return at the line; a process that ends or says nothing of the kind for START_S fails the
    test.
    """
    timer = threading.Timer(START_S, process.kill)
    timer.start()
    try:
        assert any(line.startswith(start_of_line) for line in process.stdout), (
            f"no {start_of_line!r} from {process}"
        )
    finally:
        timer.cancel()
