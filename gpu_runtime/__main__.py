"""``python -m gpu_runtime``: what a launcher starts."""

import asyncio
import faulthandler
import logging
import signal
import sys

from .config import config_load
from .errors import RuntimeFault


def main() -> int:
    """Run one session. The exit code says how it ended: 0 as asked, 1 by a fault (the reconciler starts it again)."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    faulthandler.enable()  # a crash in C leaves a stack in the log
    faulthandler.register(signal.SIGUSR1)  # so does this signal, until the watchdog gives the stacks a file
    config = config_load()
    from .run import run  # after the lease has left the environment; it imports torch

    async def until_terminated() -> None:
        # SIGTERM unwinds like any other end, so that the engine and the ranks are closed on the way out.
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await run(config, hard_exit=True)

    try:
        asyncio.run(until_terminated())
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    except RuntimeFault as fault:
        logging.getLogger(__name__).error("%s: %s", fault.code, fault)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
