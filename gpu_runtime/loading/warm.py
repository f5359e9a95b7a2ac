"""A runtime that loads before it has a session, and then becomes that session's.

``python -m gpu_runtime`` is one where TINKERSCRIPT_WARM_MODEL is set. It names a model, or is empty: then the libraries
alone are imported, which serve a session of any base model. Standard input is a socket to the process launcher that
started it. Over it go lines of JSON, and no secret goes any other way:

    to the launcher    {"state": "ready"}      engine and trainer of the model are loaded, and agree; without a model
                                               at once: a session that takes it waits for what is not imported yet
    to this process    {"folder": ..., "environment": {...}}      it is a session's from now on
    to the launcher    {"state": "taken"}

It serves one session and ends with it, like any other runtime. Before that it has no session: it ends, with every
process that it started, as soon as the launcher's side of the socket is closed, be the launcher ended or killed.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gpu_runtime.config import WARM_MODEL, RuntimeConfig, config_load
from gpu_runtime.engine.vllm_process import imports_begin
from gpu_runtime.health.stack_dumps import SUFFIX

from .both import Loaded, load_before
from .libraries import libraries_begin

log = logging.getLogger(__name__)
GPUS = "TINKERSCRIPT_RUNTIME_GPUS"
LOOK_S = 1.0
Load = Callable[[str, int, str], Awaitable[Loaded]]
Serve = Callable[[RuntimeConfig, Loaded | None], Awaitable[bool]]


class Launcher:
    """This process's side of the socket. ``session`` gets what the launcher says, once."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.session: Future[dict[str, Any]] = Future()
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def say(self, state: str) -> None:
        """Raises OSError."""
        self._link.sendall(json.dumps({"state": state}).encode() + b"\n")

    def _listen(self) -> None:
        # A thread, and not the main loop: that may be importing or loading when the server is killed.
        line = self._link.makefile("rb").readline()
        if line.endswith(b"\n"):
            self.session.set_result(json.loads(line))
        else:
            os.killpg(0, signal.SIGKILL)  # nothing here belongs to a session


def launcher_link() -> socket.socket:
    """Standard input, which no process that is started from here is given."""
    link = socket.socket(fileno=os.dup(0))
    link.set_inheritable(False)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    return link


async def life(
    launcher: Launcher, serve: Serve, load: Load = load_before, libraries: Callable[[], None] = libraries_begin
) -> bool:
    """Load, wait for a session, ``serve`` it; returns what that does. Raises RuntimeFault.

    What ends in an error before it has a session leaves that to the launcher, which reads the log and its exit code.
    """
    name = Path(os.environ["TINKERSCRIPT_RUNTIME_DIR"]).name
    model = os.environ.pop(WARM_MODEL)
    loaded = await load(model, int(os.environ.get(GPUS, "0")), name) if model else None
    try:
        libraries()  # after a load, which imports some of the same
        launcher.say("ready")
        session = asyncio.wrap_future(launcher.session)
        while not session.done():
            await asyncio.wait({session}, timeout=LOOK_S)
            if loaded and loaded.dead and not session.done():
                log.error("a process of the engine or the trainer ended")
                os.killpg(0, signal.SIGKILL)
        become(Path(session.result()["folder"]), session.result()["environment"])
        config = config_load()
        launcher.say("taken")
        return await serve(config, loaded)
    finally:
        if loaded:
            await loaded.close()


def become(folder: Path, environment: dict[str, str]) -> None:
    """Be the runtime of a session: its folder, its environment; its watchdog reads every process that was started."""
    registered = list((Path(os.environ["TINKERSCRIPT_RUNTIME_DIR"]) / "stacks").glob(f"*{SUFFIX}"))
    os.chdir(folder)
    os.environ.update(environment)
    (folder / "stacks").mkdir(parents=True, exist_ok=True)
    for path in registered:
        path.rename(folder / "stacks" / path.name)


def warm_life(serve: Serve) -> Coroutine[Any, Any, bool]:
    """The life of this process, to be run; what it loads is being imported already."""
    launcher = Launcher(launcher_link())
    imports_begin()
    return life(launcher, serve)
