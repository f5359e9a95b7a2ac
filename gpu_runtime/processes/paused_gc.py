"""Imports while the garbage collector is paused.

Modules are never freed, and those that vLLM needs hold a million objects. Collecting among them
takes a fifth of the import, and later much of a second each time. So the collector is off during
the import, and ignores these objects afterwards.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.RLock()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Nothing is collected inside the block, nor what is there at its end later. Of the whole
    process, not a thread.

    One thread at a time is inside: two that import the same modules can get them half made.
    """
    with _one_at_a_time:
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()
