"""What a rank's process on a CPU is set to: memory that it has freed stays its own, and the same
operations give the same bits.

A step on a CPU allocates and frees gigabytes, each tensor alike in every step. The C library gives
large pieces back to the system at once and gets them again page by page, each filled with zeros: a
tenth of a step's CPU time. Kept, the next step finds them without a page fault.

A run that goes on after a kill ends as one that was not killed. The gradient of a tensor that is
read by index has a sum for each of its rows. Threads of torch add to such a row in the order in
which they come: the biases of GPT-OSS's experts got other last bits in each pass. torch's own
deterministic algorithms add in one order.
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


def same_bits_keep() -> None:
    """From now on this process sums in one order. An operation without such an order is named in a
    warning.
    """
    # here and not above: the parent of the ranks must not pay for torch
    import torch
    import torch.utils.deterministic

    torch.use_deterministic_algorithms(True, warn_only=True)
    # by itself that mode also fills each new tensor, to show reads of what was not written
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
