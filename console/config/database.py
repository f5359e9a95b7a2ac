"""The database of DATABASE_URL."""

from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

# IMMEDIATE: a transaction that reads first and writes later would otherwise fail at once when another writes.
# FULL: what was acknowledged survives a power cut. secure_delete: what was deleted is not left in the file.
OF_SQLITE = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA secure_delete=ON;",
}
# Of a connection between two requests of its thread. To open SQLite's file anew is to read its whole schema, which
# takes as much of a processor as most requests do. PostgreSQL's connections are kept by console.config.postgres.
SQLITE_KEPT_S = 60


def databases_read(url: str) -> dict[str, dict[str, Any]]:
    """Django's DATABASES. Raises ImproperlyConfigured."""
    try:
        database: dict[str, Any] = dict(dj_database_url.parse(url))
    except (ValueError, KeyError) as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    if database["ENGINE"].endswith("sqlite3"):
        database |= {"OPTIONS": dict(OF_SQLITE), "CONN_MAX_AGE": SQLITE_KEPT_S}
    elif database["ENGINE"] == "django.db.backends.postgresql":
        database["ENGINE"] = "console.config.postgres"
    return {"default": database}
