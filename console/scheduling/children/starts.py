"""How ``manage.py up`` starts its children: processes of this Python, and the embedded store."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO

from django.conf import settings

from console.object_store import seaweedfs
from console.scheduling.children import supervisor


def python_start(
    *arguments: str, keep: Sequence[int] = (), more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(settings.BASE_DIR), str(settings.BASE_DIR / "sdk")])
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        # a relative one would mean another folder to a child
        "TINKERSCRIPT_DATA": str(settings.DATA),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        **more,
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=keep,
        preexec_fn=supervisor.die_with_parent,
    )


def store_start() -> subprocess.Popen[bytes]:
    """The embedded store as a child process, which appends to its log."""
    log: IO[bytes]
    path = seaweedfs.log_path(settings.DATA)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        return seaweedfs.start(settings.DATA, log=log.fileno(), preexec=supervisor.die_with_parent)
