"""Why vLLM's core ended, from its process to this one: vLLM's own message is only that it failed.

The core logs its last error and ends. A handler at that logger leaves it in the folder of the
engine's sockets.
"""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from gpu_runtime.failures.input_errors import is_of_input, said

LOGGER, FOLDER = "vllm.v1.engine.core", "VLLM_RPC_BASE_PATH"
MOST = 2000  # characters of a message


class _LastError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (
            record.exc_info
            and (error := record.exc_info[1]) is not None
            and (path := _path()) is not None
        ):
            found = {"cause": said(error)[:MOST], "of_input": is_of_input(error)}
            with suppress(OSError):  # the core ends in any case
                path.write_text(json.dumps(found))


def core_errors_keep() -> None:
    """In the core's process: leave its last error where ``core_input_error`` finds it."""
    logging.getLogger(LOGGER).addHandler(_LastError(logging.ERROR))


def core_errors_forget() -> None:
    """Before an engine starts."""
    if (path := _path()) is not None:
        path.unlink(missing_ok=True)


def core_input_error() -> str | None:
    """The error of its input with which the core of this process's engine ended; None where it is
    no such error."""
    path = _path()
    try:
        found = json.loads(path.read_text()) if path is not None else {}
    except (OSError, ValueError):
        return None
    return str(found["cause"]) if found.get("of_input") else None


def _path() -> Path | None:
    folder = os.environ.get(FOLDER)
    return Path(folder, "core_error.json") if folder else None
