"""A SQLite database with every migration applied, kept from run to run: making one takes seconds.

Each database that a test begins with is a copy, be it pytest's own or that of a server in a process
of its own. ``migrate`` still looks it over.
"""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".pytest_cache" / "d" / "database"
# Whose migrations there are, besides ours.
APPLIED = ("django", "django-allauth")
NAME = "console.sqlite3"  # in a server's DATA


def for_server(data: Path) -> None:
    """Let the server of this DATA, which has not been started yet, find its database migrated."""
    data.mkdir(parents=True, exist_ok=True)
    copy_to(data / NAME)


def copy_to(path: Path) -> None:
    """The kept database as ``path``, open to nobody else; made first where nothing of these
    migrations is kept.

    By one process alone: the parts of the suite begin at the same time.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / _name()
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _make(kept)
    shutil.copyfile(kept, path)
    path.chmod(0o600)


def _make(kept: Path) -> None:
    """By the product's own command, in a folder that is thrown away. Nothing older is kept."""
    private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL", "REDIS_URL")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    with tempfile.TemporaryDirectory(prefix="tinkerscript-migrated-") as data:
        environment = clean | {
            "TINKERSCRIPT_DATA": data,
            "DJANGO_SETTINGS_MODULE": "console.settings",
        }
        command = [sys.executable, "manage.py", "migrate", "-v", "0", "--no-input", "--skip-checks"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
        for old in KEPT.glob("*.sqlite3"):
            old.unlink()
        draft = kept.with_suffix(".draft")
        shutil.copyfile(Path(data) / NAME, draft)
        draft.replace(kept)


def _name() -> str:
    """Of all that it is made of: which apps there are, their migrations, and who applies them."""
    theirs = " ".join(version(package) for package in APPLIED)
    digest = hashlib.sha256(f"{theirs} {sqlite3.sqlite_version}".encode())
    for path in [
        ROOT / "console/settings.py",
        *sorted((ROOT / "console").glob("*/migrations/*.py")),
    ]:
        digest.update(f"{path.name} ".encode() + path.read_bytes())
    return f"{digest.hexdigest()}.sqlite3"
