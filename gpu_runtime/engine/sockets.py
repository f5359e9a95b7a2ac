"""Where vLLM's processes put the sockets between them: a private folder, removed at the end of this
process.

vLLM names each socket by a UUID, in the folder for temporary files, and leaves it there. A process
that was killed removes nothing; what it left is removed by the next one, which sees by a lock that
no process holds that it is over.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR

from gpu_runtime.errors import RuntimeFault

PREFIX = "tinkerscript-vllm-"
UNLOCKED = "tinkerscript-starting-vllm-"
LOCK = "lock"
MAX_PATH = 107  # bytes of a socket's path (unix(7)), without the zero at its end
NAME_LENGTH = 37  # a slash and a UUID
_held: list[int] = []  # descriptors of locks, open for as long as this process lives


def sockets_folder(places: Sequence[Path] | None = None) -> Path:
    """A new folder for sockets in the first of ``places`` whose path is short enough. Raises
    RuntimeFault.
    """
    places = (
        [Path(tempfile.gettempdir()), Path("/tmp"), Path("/dev/shm")] if places is None else places
    )
    for place in places:
        folder_length = len(os.fsencode(place)) + 1 + len(PREFIX) + 8  # mkdtemp adds 8 characters
        if folder_length + NAME_LENGTH > MAX_PATH or not os.access(place, os.W_OK):
            continue
        _remove_left(place)
        made = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=place))
        _held.append(_locked(made))
        # Only now under the name that others look for: before it was locked they would take it for
        # one that was left.
        folder = made.rename(place / f"{PREFIX}{made.name.removeprefix(UNLOCKED)}")
        atexit.register(_remove, folder, os.getpid())
        return folder
    raise RuntimeFault(
        f"no folder takes sockets: {', '.join(map(str, places))}; set TMPDIR to a short path"
    )


def _locked(folder: Path) -> int:
    """An open descriptor that holds the folder's lock; children that are started do not inherit it.
    Raises OSError.
    """
    descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left(place: Path) -> None:
    for left in place.glob(f"{PREFIX}*"):
        # Another user's lock may be a link to a file of ours: not looked at. Or it is in use.
        with contextlib.suppress(OSError):
            if (
                (seen := left.lstat()).st_uid == os.getuid()
                and S_ISDIR(seen.st_mode)
                and (left / LOCK).is_file()
            ):
                descriptor = _locked(left)
                shutil.rmtree(left, ignore_errors=True)
                os.close(descriptor)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves it
        shutil.rmtree(folder, ignore_errors=True)
