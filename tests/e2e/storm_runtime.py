"""The runtime of ``runtime_with_fakes.py``, which also keeps a book of its lives and sees whether
it is alone.

In the session's folder: ``lives`` has one line for each launch that began to live; ``doubled`` is
there once two processes of the session lived at one time. The lock that tells is the kernel's: it
ends with its holder, however that ends, and no moment between two looks is missed.
"""

import fcntl
import os
import runpy
from pathlib import Path


def life_note() -> object:
    """Write down that this launch lives, and whether another one still does; the lock, to be held
    to the end.
    """
    alone = open("alone.lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        Path("doubled").touch()
    with open("lives", "a") as lives:
        lives.write(f"{os.environ['TINKERSCRIPT_LAUNCH']}\n")
    return alone


if __name__ == "__main__":
    alone = life_note()
    runpy.run_path(str(Path(__file__).with_name("runtime_with_fakes.py")), run_name="__main__")
