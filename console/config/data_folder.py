"""The folder DATA, which only the server's own user may read or write.

Everything that decides who may do what is in there: the secret that signs, the database, everyone's
weights, and logs with links of mails that were not sent.
"""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

OF_OTHERS = 0o077
# what torch compiled for runtimes (console/scheduling/launchers/process.py)
COMPILED_FOLDER = "compiled"
MOST_COMPILED_BYTES = 4 << 30
# Base models: public, and read by containers as a user of their own. The folder above them keeps
# strangers out.
LEFT_AS_THEY_ARE = ("models",)


def data_folder_open(folder: Path, *, is_shared_volume: bool = False) -> None:
    """Make the folder if it is not there, and keep others out of it. What this process makes is its
    user's alone.

    ``is_shared_volume``: it is a Kubernetes volume, which belongs to root and is open to a group:
    that no other pod mounts it is the cluster's business. Raises ImproperlyConfigured when it is
    open to others and cannot be closed.
    """
    os.umask(OF_OTHERS)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_private(folder) or (is_shared_volume and folder.stat().st_uid != os.getuid()):
        return
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise ImproperlyConfigured(_refusal(folder, error.strerror or str(error))) from None
    if not _is_private(folder):
        raise ImproperlyConfigured(_refusal(folder, "its file system keeps no permissions"))


def data_files_close(folder: Path) -> int:
    """Take every right of others from what lies in the folder; how many files and folders they had
    one to.
    """
    closed = 0
    for root, folders, files in os.walk(folder):
        if Path(root) == folder:
            folders[:] = [name for name in folders if name not in LEFT_AS_THEY_ARE]
        for name in (*folders, *files):
            closed += _close(Path(root, name))
    return closed


def compiled_prune(folder: Path) -> bool:
    """Remove what torch compiled for runtimes of earlier versions and models, once all of it is
    more than MOST_COMPILED_BYTES. A runtime that needs some of it compiles it anew.
    """
    compiled = folder / COMPILED_FOLDER
    size_bytes = 0
    for root, _, files in os.walk(compiled):
        for name in files:
            # a runtime that outlived its server compiles
            with contextlib.suppress(FileNotFoundError):
                size_bytes += Path(root, name).lstat().st_size
    if size_bytes <= MOST_COMPILED_BYTES:
        return False
    shutil.rmtree(compiled, ignore_errors=True)
    return True


def _close(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) or not mode & OF_OTHERS:
            return False
        path.chmod(stat.S_IMODE(mode) & ~OF_OTHERS)
    except (FileNotFoundError, PermissionError):
        return False  # gone meanwhile, or a container's own user's: DATA itself is closed
    return True


def _is_private(folder: Path) -> bool:
    return not folder.stat().st_mode & OF_OTHERS


def _refusal(folder: Path, why: str) -> str:
    found = folder.stat()
    mode = f"{stat.S_IMODE(found.st_mode):03o}"
    return (
        f"TINKERSCRIPT_DATA={folder} is open to other users of this machine (mode {mode}) and "
        f"cannot be closed: {why}. "
        f"It belongs to user {found.st_uid}, this server runs as {os.getuid()}. Give it to the "
        "server's user, or run "
        "`chmod 700` on it as its owner, or set TINKERSCRIPT_DATA to a folder of the server's own."
    )
