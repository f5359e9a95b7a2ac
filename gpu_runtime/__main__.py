"""``python -m gpu_runtime``: what a launcher starts."""

import asyncio
import faulthandler
import logging
import os
import signal
import sys

from .config import RuntimeConfig, config_load
from .control_plane.agent import Agent
from .errors import RuntimeFault
from .start import start


def main() -> int:
    """Run one session. Exit code: 0 as asked, 1 by a fault (the reconciler starts it again)."""
    os.umask(0o077)  # weights, episodes and logs are the user's of this process, whatever its launcher left us
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    faulthandler.enable()  # a crash in C leaves a stack in the log
    config = config_load()

    try:
        if asyncio.run(until_terminated(config)):
            return 128 + signal.SIGTERM
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    except RuntimeFault as fault:
        logging.getLogger(__name__).error("%s: %s", fault.code, fault)
        return 1
    return 0


async def until_terminated(config: RuntimeConfig) -> bool:
    """Whether it ended by a SIGTERM with notice: the session goes on elsewhere.

    SIGINT, a SIGTERM without notice and a second one unwind like any other end, so that engine and ranks are closed. A
    launcher that gives notice orders its own ends by SIGINT where it can: a SIGTERM is then the notice.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    agents: list[Agent] = []

    def terminated() -> None:
        if config.notice_s == 0 or not agents or agents[0].preempted.is_set():
            task.cancel()
            return
        logging.getLogger(__name__).warning("this machine is taken away within %d s", config.notice_s)
        agents[0].preempt()
        loop.call_later(config.notice_s, task.cancel)

    loop.add_signal_handler(signal.SIGTERM, terminated)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    await start(config, hard_exit=True, on_agent=agents.append)
    return bool(agents) and agents[0].preempted.is_set()


if __name__ == "__main__":
    sys.exit(main())
