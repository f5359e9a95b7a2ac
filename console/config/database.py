"""What processes of the server share: the database of DATABASE_URL; and where they count and how
they wake one another, which is by Redis, or within one web process alone.
"""

from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_int

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

# it counts failed sign-ins and requests: so many that no caller can push their own count out
MAX_ENTRIES = 1_000_000
# channels_redis asks a quiet channel for 5 s at once (brpop_timeout), which is the client's own
# deadline for an answer.
SOCKET_TIMEOUT_S = 15.0


def databases_read(url: str) -> dict[str, dict[str, Any]]:
    """Django's DATABASES. ``?pool_mode=transaction`` in the URL: a pool such as PgBouncer may give
    each transaction another connection, so that no cursor outlives one. Raises
    ImproperlyConfigured.
    """
    try:
        parsed = dj_database_url.parse(url, conn_max_age=CONN_MAX_AGE_S, conn_health_checks=True)
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


def channel_layers(redis_url: str) -> dict[str, dict[str, Any]]:
    """Django's CHANNEL_LAYERS. Without Redis other processes are woken by
    console/live/local_wakes.py.
    """
    if not redis_url:
        return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    hosts = [{"address": redis_url, "socket_timeout": SOCKET_TIMEOUT_S}]
    backend = "channels_redis.core.RedisChannelLayer"
    return {"default": {"BACKEND": backend, "CONFIG": {"hosts": hosts}}}


def caches(redis_url: str) -> dict[str, dict[str, Any]]:
    """Django's CACHES."""
    if redis_url:
        backend = "django.core.cache.backends.redis.RedisCache"
        return {"default": {"BACKEND": backend, "LOCATION": redis_url}}
    backend = "django.core.cache.backends.locmem.LocMemCache"
    return {"default": {"BACKEND": backend, "OPTIONS": {"MAX_ENTRIES": MAX_ENTRIES}}}


def web_processes_read(redis_url: str) -> int:
    """How many web processes serve. Raises ImproperlyConfigured for several without Redis.

    A limit that each process counts for itself is none, and only Redis counts for all.
    """
    count = read_int("TINKERSCRIPT_WEB_PROCESSES", 1, low=1, high=32)
    if count > 1 and not redis_url:
        raise ImproperlyConfigured(
            f"TINKERSCRIPT_WEB_PROCESSES={count} needs REDIS_URL: several web processes count "
            "requests and failed "
            "sign-ins in Redis. Set REDIS_URL, or leave it at 1."
        )
    return count
