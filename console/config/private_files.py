"""Secrets that a server makes for itself: written whole or not at all, readable by their owner
alone.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """The text of ``path``; ``make()`` writes it first (mode 0600) when there is none.

    Processes may race: one of their texts wins and all of them read that one. Raises OSError.
    """
    if not path.exists():
        draft = _draft(path, make())
        try:
            os.link(draft, path)  # unlike rename, link refuses to replace a winner
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return path.read_text()


def replace(path: Path, text: str) -> None:
    """Replace the content of ``path`` with ``text``. A concurrent reader sees the old text or the
    new, never a mixture.

    It is on the disk when this returns. Raises OSError, and then nothing has changed.
    """
    draft = _draft(path, text)
    try:
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft(path: Path, text: str) -> str:
    """The text in a file beside ``path``, on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent)  # mkstemp opens with mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        os.unlink(draft)
        raise
    return draft
