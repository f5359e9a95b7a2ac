"""``python -m gpu_runtime``: what a launcher starts."""

import asyncio
import faulthandler
import logging
import os
import signal
import sys

from .config import config_load
from .errors import RuntimeFault
from .start import start


def main() -> int:
    """Run one session. Exit code: 0 as asked, 1 by a fault (the reconciler starts it again)."""
    os.umask(0o077)  # weights, episodes and logs are the user's of this process, whatever its launcher left us
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    faulthandler.enable()  # a crash in C leaves a stack in the log
    config = config_load()

    async def until_terminated() -> None:
        # SIGTERM unwinds like any other end, so that the engine and the ranks are closed on the way out.
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await start(config, hard_exit=True)

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
