"""What a runtime is told by its launcher: three environment variables, read once at start-up."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_LEASE = re.compile(r"tml-ls-(?P<session_id>[A-Za-z0-9_-]{1,40})\.[0-9a-f]{64}")


class BadConfig(ValueError):
    """A variable is missing or malformed; the message names it and says what it must look like."""


@dataclass(frozen=True)
class RuntimeConfig:
    """Where the control plane is, the lease that speaks for the session, the session's volume."""

    server_url: str
    lease: str = field(repr=False)  # a secret: it must not reach a log through a repr
    session_id: str
    runtime_dir: Path


def config_read(environ: Mapping[str, str]) -> RuntimeConfig:
    """The configuration in ``environ``. Raises BadConfig."""
    url = _required(environ, "TINKERSCRIPT_SERVER_URL").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        raise BadConfig(f"TINKERSCRIPT_SERVER_URL must be an origin such as http://127.0.0.1:8000, not {url!r}")
    lease = _required(environ, "TINKERSCRIPT_LEASE")
    matched = _LEASE.fullmatch(lease)
    if not matched:
        raise BadConfig("TINKERSCRIPT_LEASE must be tml-ls-<session id>.<64 hex digits>, as the launcher was given it")
    folder = Path(_required(environ, "TINKERSCRIPT_RUNTIME_DIR"))
    if not folder.is_absolute() or not folder.is_dir():
        raise BadConfig(f"TINKERSCRIPT_RUNTIME_DIR must be an existing folder with an absolute path, not {folder}")
    return RuntimeConfig(server_url=url, lease=lease, session_id=matched["session_id"], runtime_dir=folder)


def config_load() -> RuntimeConfig:
    """Read the process's environment and take the lease out of it. A malformed one ends the process with a message."""
    try:
        config = config_read(os.environ)
    except BadConfig as error:
        raise SystemExit(f"error: {error}") from error
    # The engine and the ranks are children of this process; the lease is none of their business.
    del os.environ["TINKERSCRIPT_LEASE"]
    return config


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise BadConfig(f"{name} is not set; a runtime is started by a launcher, which sets it")
    return value
