"""Runs the whole service on this machine for the length of a ``with`` block: ``manage.py up`` and a
demo user's key.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_S, STOP_S = 180, 120


@dataclass(frozen=True)
class Server:
    """A server to talk to. ``folder`` is where results may be written; ``sign_in`` is how to enter
    the console.
    """

    base_url: str
    api_key: str
    folder: Path
    log: Path | None
    sign_in: str


@contextmanager
def running_server() -> Iterator[Server]:
    """The server named by the environment, or one of our own that ends with the block, Ctrl-C and
    SIGTERM included.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.environ.get("TINKERSCRIPT_API_KEY"):
        base_url = os.environ.get("TINKERSCRIPT_BASE_URL", "http://127.0.0.1:8000")
        yield Server(base_url, os.environ["TINKERSCRIPT_API_KEY"], Path.cwd(), None, "yourself")
        return
    data = Path(os.environ.get("TINKERSCRIPT_DATA", ROOT / ".data")).resolve()
    os.umask(0o077)  # the server's log has links that reset passwords
    data.mkdir(parents=True, exist_ok=True)
    log = data / "server.log"
    with log.open("ab") as output:
        # A session of its own: Ctrl-C reaches this process alone, which then ends the server in
        # order.
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT,
            env={**os.environ, "TINKERSCRIPT_DATA": str(data)},
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        )
        try:
            base_url = _wait_ready(process, log)
            demo = _demo_user(data)
            sign_in = f"{demo['email']} with password {demo['password']}"
            yield Server(base_url, demo["api_key"], data, log, sign_in)
        finally:
            _stop(process)


def _stays_open(server: Server) -> bool:
    return server.log is not None and sys.stdout.isatty()


def how_to_look(server: Server) -> str:
    """Where the console is once the program has done its work, and how to enter it."""
    where = "it stays open until Ctrl-C at" if _stays_open(server) else "`make up`, then"
    return f"{where} {server.base_url} as {server.sign_in}"


def stay_open(server: Server) -> None:
    """On a terminal, keep a server of our own until Ctrl-C, so that the console can be looked
    at.
    """
    if _stays_open(server):
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def _wait_ready(process: subprocess.Popen[str], log: Path) -> str:
    """The address in the line "ready http://..."; everything else that the server prints goes on to
    the log.
    """
    addresses: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with log.open("a") as output:
            for line in process.stdout:
                output.write(line)
                output.flush()
                if line.startswith("ready "):
                    addresses.put(line.split()[1])
        addresses.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        address = addresses.get(timeout=START_S)
    except queue.Empty:
        address = None
    if address is None:
        tail = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-20:])
        raise SystemExit(f"The server did not start. The end of {log}:\n{tail}")
    return address


def _demo_user(data: Path) -> dict[str, str]:
    """{"email", "password", "api_key"} of a user who is made if absent."""
    command = [sys.executable, "manage.py", "seed_demo"]
    environment = {**os.environ, "TINKERSCRIPT_DATA": str(data)}
    made = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    return json.loads(made.stdout)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except (
        KeyboardInterrupt
    ):  # a second Ctrl-C hurries the server, as it does on a terminal of its own
        process.send_signal(signal.SIGINT)
        process.wait(STOP_S)
