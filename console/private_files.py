"""Secrets that a server makes for itself once: written whole or not at all, readable by their owner alone."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """The text of ``path``; ``make()`` writes it first (mode 0600) when there is none.

    Processes may race: one of their texts wins and all of them read that one. Raises OSError.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent)  # mkstemp opens with mode 0600
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(make())
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # unlike rename, link refuses to replace a winner
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return path.read_text()
