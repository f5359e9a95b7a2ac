"""The client as a wheel, built by this server from its own sdk/: what people install is what the
server understands.

ClientUnavailable   503  it cannot be built here
"""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from django.conf import settings

from console.errors import StorageUnavailable
from tinkerscript.wire.version import VERSION

# By which pip knows it; pip refuses every shorter name.
WHEEL_NAME = f"tinkerscript-{VERSION}-py3-none-any.whl"
BUILD_S = 60.0

_building = threading.Lock()
_built: list[bytes] = []


class ClientUnavailable(StorageUnavailable):
    """The wheel cannot be built here."""


def client_wheel() -> bytes:
    """The wheel; built by the first call of this process, in about two seconds. Raises
    ClientUnavailable.
    """
    with _building:
        if not _built:
            _built.append(_build())
        return _built[0]


def _build() -> bytes:
    with tempfile.TemporaryDirectory(prefix="tinkerscript-client-") as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        try:
            subprocess.run(
                command,
                cwd=settings.BASE_DIR,
                check=True,
                capture_output=True,
                text=True,
                timeout=BUILD_S,
            )
            return (Path(folder) / WHEEL_NAME).read_bytes()
        except (OSError, subprocess.SubprocessError) as failure:
            said = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines() or [""]
            raise ClientUnavailable(
                f"The client's wheel cannot be built on this server: {said[-1]}",
                hint="On the server: requirements/install.sh light. Or install from a checkout: "
                "pip install .",
            ) from failure
