"""The SQLite database of the tests with every migration applied, kept from run to run: fifty migrations take a second.

A kept one is used as it is where nothing that it was made of has changed; ``migrate`` still looks it over.
"""

import contextlib
import hashlib
import os
import shutil
import sqlite3
from importlib.metadata import version
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection


def is_possible() -> bool:
    """Whether the tests run on SQLite; on PostgreSQL every run makes its own."""
    return connection.vendor == "sqlite"


def kept_take(folder: Path) -> None:
    """Begin with the kept database, if ``folder`` has one of these migrations."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(folder / _name(), settings.DATABASES["default"]["TEST"]["NAME"])


def kept_write(folder: Path) -> None:
    """Keep the database, which is as its migrations left it, and nothing older."""
    path = folder / _name()
    if path.exists():
        return
    draft = folder / f"{os.getpid()}.draft"
    with contextlib.closing(sqlite3.connect(draft)) as copy:
        connection.connection.backup(copy)
    for old in folder.glob("*.sqlite3"):
        old.unlink(missing_ok=True)
    draft.replace(path)


def _name() -> str:
    """Of all that it is made of: the migrations of every app, and who applies them."""
    digest = hashlib.sha256(f"{version('django')} {sqlite3.sqlite_version}".encode())
    for app in apps.get_app_configs():
        for path in sorted((Path(app.path) / "migrations").glob("*.py")):
            digest.update(f"{app.label} {path.name} ".encode() + path.read_bytes())
    return f"{digest.hexdigest()}.sqlite3"
