"""Memory that a process has freed stays its own, so that the next step finds it without a page
fault.

A step on a CPU allocates and frees gigabytes, each tensor alike in every step. The C library gives
large pieces back to the system at once and gets them again page by page, each filled with zeros: a
tenth of a step's CPU time.
"""

import ctypes

# <malloc.h> of glibc
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
NEVER = -1


def heap_keep() -> None:
    """From now on freed memory waits for its next use. Without glibc nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)  # large pieces come from the heap too
        mallopt(M_TRIM_THRESHOLD, NEVER)
        # what the thread frees that loaded the weights is found by the one that trains
        mallopt(M_ARENA_MAX, 1)
