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
# Of Django's backends, ours: they keep connections between requests (console/config/kept_connections.py).
BACKENDS = {
    "django.db.backends.sqlite3": "console.config.sqlite3",
    "django.db.backends.postgresql": "console.config.postgres",
}


def databases_read(url: str, *, is_pooled: bool = False) -> dict[str, dict[str, Any]]:
    """Django's DATABASES. ``is_pooled``: a pool such as PgBouncer may give each transaction another connection, so that
    no cursor outlives one. Raises ImproperlyConfigured.
    """
    try:
        database: dict[str, Any] = dict(dj_database_url.parse(url, disable_server_side_cursors=is_pooled))
    except (ValueError, KeyError) as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    if is_pooled and database["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            "TINKERSCRIPT_DISABLE_SERVER_SIDE_CURSORS=1 is of a DATABASE_URL of PostgreSQL alone."
        )
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["OPTIONS"] = dict(OF_SQLITE)
    database["ENGINE"] = BACKENDS.get(database["ENGINE"], database["ENGINE"])
    return {"default": database}
