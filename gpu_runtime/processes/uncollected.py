"""Imports without the garbage collector, which would look through all that was imported again and
again.

Modules stay; vLLM's and what they need are made of a million objects. To look for garbage among
them takes a fifth of the import, and later a good part of a second each time. So the collector is
off meanwhile, and leaves alone afterwards what is there then.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.RLock()


@contextmanager
def uncollected() -> Iterator[None]:
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
