"""Where processes of the server count, and how they wake one another: by Redis, or one web process
alone."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_int

# it counts failed sign-ins and requests: so many that no caller can push their own count out
MAX_ENTRIES = 1_000_000
# channels_redis asks a quiet channel for 5 s at once (brpop_timeout), which is the client's own
# deadline for an answer.
SOCKET_TIMEOUT_S = 15.0


def channel_layers(redis_url: str) -> dict[str, dict[str, Any]]:
    """Django's CHANNEL_LAYERS. Without Redis other processes are woken by
    console/live/local_wakes.py.
    """
    if redis_url:
        hosts = [{"address": redis_url, "socket_timeout": SOCKET_TIMEOUT_S}]
        return {
            "default": {
                "BACKEND": "channels_redis.core.RedisChannelLayer",
                "CONFIG": {"hosts": hosts},
            }
        }
    return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


def caches(redis_url: str) -> dict[str, dict[str, Any]]:
    """Django's CACHES."""
    if redis_url:
        return {
            "default": {
                "BACKEND": "django.core.cache.backends.redis.RedisCache",
                "LOCATION": redis_url,
            }
        }
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
