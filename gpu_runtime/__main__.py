"""``python -m gpu_runtime``: what a launcher starts."""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from .cluster.pods import pod_index, pods_started
from .config import WAITS, RuntimeConfig, config_load
from .control_plane.agent import Agent
from .errors import RuntimeFault
from .start import start

COMPILED = "TORCHINDUCTOR_CACHE_DIR"


def main() -> int:
    """Run one session. Exit code: 0 as asked, 1 by a fault (the reconciler starts it again)."""
    process_begin()
    if pod_index():
        from .cluster.node import pod_join

        return pod_join()
    if sys.argv[1:] == [WAITS]:
        from .loading.warm import warm_life

        return exit_code(warm_life(until_terminated))
    return exit_code(until_terminated(config_load()))


def process_begin() -> None:
    """What every runtime does first."""
    # weights, episodes and logs are the user's of this process, whatever its launcher left us
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    faulthandler.enable()  # a crash in C leaves a stack in the log
    if folder := os.environ.get("TINKERSCRIPT_RUNTIME_DIR"):
        # What torch compiles is loaded and run: by default it is where another user of the machine
        # could put it first.
        given = os.environ.get(COMPILED)
        if not given or not _is_ours_alone(given):
            if given:
                logging.getLogger(__name__).warning(
                    "%s is not used: others may write to %s", COMPILED, given
                )
            os.environ[COMPILED] = os.path.join(folder, "compiled")


def _is_ours_alone(folder: str) -> bool:
    """Whether nobody but this process's user, and root, may put files there; it is made where it is
    missing.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def exit_code(life: Coroutine[Any, Any, bool]) -> int:
    """Run a runtime's ``life``, which returns what ``until_terminated`` does, to its end."""
    try:
        if asyncio.run(life):
            return 128 + signal.SIGTERM
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    except RuntimeFault as fault:
        logging.getLogger(__name__).error("%s: %s", fault.code, fault)
        return 1
    return 0


async def until_terminated(config: RuntimeConfig) -> bool:
    """Whether it ended by a SIGTERM with notice: the session goes on elsewhere.

    SIGINT, a SIGTERM without notice and a second one unwind like any other end, so that engine and
    ranks are closed. A launcher that gives notice orders its own ends by SIGINT where it can: a
    SIGTERM is then the notice.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    agents: list[Agent] = []
    is_told = False

    def terminated() -> None:
        nonlocal is_told
        if config.notice_s == 0 or not agents or is_told:
            task.cancel()
            return
        # by its own signal: the notice of another pod's machine may have come before
        is_told = True
        logging.getLogger(__name__).warning(
            "this machine is taken away within %d s", config.notice_s
        )
        agents[0].preempt()
        loop.call_later(config.notice_s, task.cancel)

    loop.add_signal_handler(signal.SIGTERM, terminated)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    await pods_started()
    await start(config, hard_exit=True, on_agent=agents.append)
    return bool(agents) and agents[0].preempted.is_set()


if __name__ == "__main__":
    sys.exit(main())
