"""Progress bars in the processes of the engine and the trainer leave nothing in /dev/shm.

tqdm makes a lock that processes could share. In one that was spawned, or forked by a fork server,
that is a semaphore with a name (``/dev/shm/sem.mp-*``), which stays there for ever when the process
is killed. Nobody shares ours.
"""

import threading


def bars_lock_set() -> None:
    """Have every bar of this process, and of those that are forked from it, use a lock of its
    threads.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())
