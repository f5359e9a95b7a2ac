"""Memory that a worker of a spread engine has freed goes back to the system.

It takes weights through vLLM's own loaders, which build each layer anew beside the old one. Where
freed memory is kept, as in an engine on one node, the new ones then find no room in it: after two
hand-overs a worker whose part of the weights has 0.76 GiB held 1.3 GiB more, and its pod of 7 GiB
was killed. An engine is spread where memory is short.
"""

import ctypes

# <malloc.h> of glibc
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
LARGE = 1 << 20  # bytes; the C library would raise it with each large piece that is freed
PIECES = 65536  # mapped at once: glibc's own default


def heap_return() -> None:
    """From now on large pieces are given back when they are freed. Without glibc nothing
    changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in (
            (M_MMAP_MAX, PIECES),
            (M_MMAP_THRESHOLD, LARGE),
            (M_TRIM_THRESHOLD, LARGE),
        ):
            mallopt(option, value)
