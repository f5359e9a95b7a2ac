"""A runtime that imports its libraries before it has a session, and then becomes that session's.

``python -m gpu_runtime --wait`` is one. The libraries serve a
session of any base model. Standard input is a socket to the process launcher that started it. Over
it go lines of JSON, and no secret goes any other way:

    to the launcher    {"state": "ready"}      while it imports: its session waits for the rest
    to this process    {"folder": ..., "environment": {...}}      it is a session's from now on
    to the launcher    {"state": "taken"}

It serves one session and ends with it, like any other runtime. Before that it has no session: it
ends, with every process that it started, as soon as the launcher's side of the socket is closed, be
the launcher ended or killed.

The main process imports its own part in a thread. Beside it the fork server imports what engine and
trainer need (engine/vllm_process.py). Neither depends on the base model: a session of any that
takes this process finds all of it there, or waits for the rest.
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
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu_runtime.config import RuntimeConfig, config_load
from gpu_runtime.engine.vllm_process import imports_begin, vllm_import
from gpu_runtime.placement import engine_needs_gpu

log = logging.getLogger(__name__)
SERVING = "gpu_runtime.run"  # by name: it stands above this, and imports it
_begun: list[threading.Thread] = []
Serve = Callable[[RuntimeConfig], Awaitable[bool]]


def libraries_begin() -> None:
    """Start to import; returns at once, and again does nothing. For engines on a CPU alone."""
    if _begun or engine_needs_gpu():
        return
    thread = threading.Thread(target=_import, name="libraries", daemon=True)
    _begun.append(thread)
    thread.start()


async def libraries_wait() -> None:
    """Until what was begun is there; the loop goes on meanwhile. Two threads that import may wait
    for each other.
    """
    for thread in _begun:
        await asyncio.to_thread(thread.join)


def _import() -> None:
    try:
        vllm_import("cpu")
        import vllm.renderers.hf  # noqa: F401 - which vLLM imports with the first tokenizer

        import gpu_runtime.engine.front
        import gpu_runtime.rendering.transformers_tokenizer  # noqa: F401
        from gpu_runtime.native.compiled import kernels_compile

        import_module(SERVING)
        kernels_compile()
    except ImportError as error:  # raised again where it is needed, and told there
        log.warning("not imported before a session: %s", error)


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
        # A thread, and not the main loop: that may be importing when the server is killed.
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
    launcher: Launcher, serve: Serve, libraries: Callable[[], None] = libraries_begin
) -> bool:
    """Import, wait for a session, ``serve`` it; returns what that does. Raises RuntimeFault.

    What ends in an error before it has a session leaves that to the launcher, which reads the log
    and its exit code.
    """
    libraries()
    launcher.say("ready")
    session = await asyncio.wrap_future(launcher.session)
    become(Path(session["folder"]), session["environment"])
    config = config_load()
    launcher.say("taken")
    return await serve(config)


def become(folder: Path, environment: dict[str, str]) -> None:
    """Be the runtime of a session: its folder, its environment."""
    os.chdir(folder)
    os.environ.update(environment)


def warm_life(serve: Serve) -> Coroutine[Any, Any, bool]:
    """The life of this process, to be run; the engine's and the trainer's part is being imported
    already."""
    launcher = Launcher(launcher_link())
    imports_begin()
    return life(launcher, serve)
