"""The configuration that a launcher gives a runtime, in environment variables that are read once at
start-up.

TINKERSCRIPT_SERVER_URL, _LEASE and _RUNTIME_DIR are always there. A launcher whose runtimes have a
network of their own adds TINKERSCRIPT_RUNTIME_LISTEN, where the gateway listens (127.0.0.1 and a
free port otherwise), and, where the control plane finds it under another name,
TINKERSCRIPT_RUNTIME_ADDRESS; both read host:port. TINKERSCRIPT_RUNTIME_GPUS is how many devices
were asked for. TINKERSCRIPT_RUNTIME_NOTICE_S is how long before its end a runtime is told by
SIGTERM (a pod that is evicted, a Slurm job that is preempted); without it a SIGTERM is the end.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

EVERYWHERE = "0.0.0.0"
# the argument of a runtime that has no session yet: loading/warm.py
WAITS = "--wait"
_LEASE = re.compile(r"tml-ls-(?P<session_id>[A-Za-z0-9_-]{1,40})\.[0-9a-f]{64}")
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.\-]+):(?P<port>\d{1,5})")


class BadConfig(ValueError):
    """A variable is missing or malformed; the message names it and the form that it must have."""


@dataclass(frozen=True)
class RuntimeConfig:
    """Where the control plane is, the lease that speaks for the session, the session's volume."""

    server_url: str
    lease: str = field(repr=False)  # a secret: it must not reach a log through a repr
    session_id: str
    runtime_dir: Path
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    address: str | None = None
    gpus: int = 0
    notice_s: int = 0


def config_read(environ: Mapping[str, str]) -> RuntimeConfig:
    """The configuration in ``environ``. Raises BadConfig."""
    url = _required(environ, "TINKERSCRIPT_SERVER_URL").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        raise BadConfig(
            f"TINKERSCRIPT_SERVER_URL must be an origin such as http://127.0.0.1:8000, not {url!r}"
        )
    lease = _required(environ, "TINKERSCRIPT_LEASE")
    matched = _LEASE.fullmatch(lease)
    if not matched:
        raise BadConfig(
            "TINKERSCRIPT_LEASE must be tml-ls-<session id>.<64 hex digits>, as the launcher was "
            "given it"
        )
    folder = Path(_required(environ, "TINKERSCRIPT_RUNTIME_DIR"))
    if not folder.is_absolute() or not folder.is_dir():
        raise BadConfig(
            "TINKERSCRIPT_RUNTIME_DIR must be an existing folder with an absolute path, not "
            f"{folder}"
        )
    listen_host, listen_port = _listen(environ)
    return RuntimeConfig(
        server_url=url,
        lease=lease,
        session_id=matched["session_id"],
        runtime_dir=folder,
        listen_host=listen_host,
        listen_port=listen_port,
        address=_address(environ),
        gpus=_number(environ, "TINKERSCRIPT_RUNTIME_GPUS", "devices"),
        notice_s=_number(environ, "TINKERSCRIPT_RUNTIME_NOTICE_S", "seconds"),
    )


def config_load() -> RuntimeConfig:
    """Read the process's environment and take the lease out of it. A malformed one ends the process
    with a message.
    """
    try:
        config = config_read(os.environ)
    except BadConfig as error:
        raise SystemExit(f"error: {error}") from error
    # The engine and the ranks are children of this process; the lease is none of their business.
    del os.environ["TINKERSCRIPT_LEASE"]
    return config


def address_advertise(config: RuntimeConfig, listening: str) -> str:
    """What heartbeats say: the configured address, else ``listening`` ("host:port") as the control
    plane would dial it.

    A gateway that listens everywhere is reached over the interface that leads to the control plane.
    Raises OSError when no route leads there.
    """
    if config.address:
        return config.address
    host, _, port = listening.rpartition(":")
    if host != EVERYWHERE:
        return listening
    server = urlsplit(config.server_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server.hostname, server.port or 80))  # sends nothing: it picks the route
        return f"{probe.getsockname()[0]}:{port}"


def _listen(environ: Mapping[str, str]) -> tuple[str, int]:
    text = environ.get("TINKERSCRIPT_RUNTIME_LISTEN", "").strip() or "127.0.0.1:0"
    matched = _ADDRESS.fullmatch(text)
    if not matched or int(matched["port"]) > 65535:
        raise BadConfig(
            f"TINKERSCRIPT_RUNTIME_LISTEN must read host:port, such as 0.0.0.0:7000, not {text!r}"
        )
    return matched["host"], int(matched["port"])


def _address(environ: Mapping[str, str]) -> str | None:
    text = environ.get("TINKERSCRIPT_RUNTIME_ADDRESS", "").strip()
    matched = _ADDRESS.fullmatch(text)
    if text and (not matched or not 0 < int(matched["port"]) <= 65535):
        raise BadConfig(f"TINKERSCRIPT_RUNTIME_ADDRESS must read host:port, not {text!r}")
    return text or None


def _number(environ: Mapping[str, str], name: str, of: str) -> int:
    text = environ.get(name, "").strip() or "0"
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise BadConfig(f"{name} must be a number of {of}, not {text!r}")
    return int(text)


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise BadConfig(f"{name} is not set; a runtime is started by a launcher, which sets it")
    return value
