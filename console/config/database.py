"""The database of DATABASE_URL."""

from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

# IMMEDIATE: a transaction that reads first and writes later would otherwise fail at once when
# another writes. FULL: what was acknowledged survives a power cut. secure_delete: what was deleted
# is not left in the file.
OF_SQLITE = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA secure_delete=ON;",
}
# A connection is its thread's. A younger one is used again by the next request, if the database
# still answers on it: of SQLite's file the whole schema is read for a new one, and PostgreSQL
# starts a process.
CONN_MAX_AGE_S = 300  # firewalls forget quiet connections without a word


def databases_read(url: str) -> dict[str, dict[str, Any]]:
    """Django's DATABASES. ``?pool_mode=transaction`` in the URL: a pool such as PgBouncer may give
    each transaction another connection, so that no cursor outlives one. Raises
    ImproperlyConfigured.
    """
    try:
        parsed = dj_database_url.parse(
            url,
            conn_max_age=CONN_MAX_AGE_S,
            conn_health_checks=True,
        )
    except (ValueError, KeyError) as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    database: dict[str, Any] = dict(parsed)
    if mode := database.get("OPTIONS", {}).pop("pool_mode", None):
        if mode != "transaction" or database["ENGINE"] != "django.db.backends.postgresql":
            raise ImproperlyConfigured(
                f"DATABASE_URL: pool_mode={mode} is none of a server's; there is "
                "pool_mode=transaction, of PostgreSQL."
            )
        database["DISABLE_SERVER_SIDE_CURSORS"] = True
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["OPTIONS"] = dict(OF_SQLITE)
    return {"default": database}
