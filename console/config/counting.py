"""Where processes of the server count, and how they wake one another: by Redis, by a file of this machine, or alone."""

from pathlib import Path
from typing import Any

MAX_ENTRIES = 1_000_000  # it counts failed sign-ins and requests: so many that no caller can push their own count out
# channels_redis asks a quiet channel for 5 s at once (brpop_timeout), which is the client's own deadline for an answer.
SOCKET_TIMEOUT_S = 15.0


def channel_layers(redis_url: str) -> dict[str, dict[str, Any]]:
    """Django's CHANNEL_LAYERS. Without Redis other processes are woken by console/live/local_wakes.py."""
    if redis_url:
        hosts = [{"address": redis_url, "socket_timeout": SOCKET_TIMEOUT_S}]
        return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": hosts}}}
    return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


def caches(redis_url: str, shared: Path | None) -> dict[str, dict[str, Any]]:
    """Django's CACHES. ``shared``: a file for all web processes of this machine, where there is no Redis."""
    if redis_url:
        return {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis_url}}
    if shared:
        return {"default": {"BACKEND": "console.server.shared_counts.FileCache", "LOCATION": shared}}
    backend = "django.core.cache.backends.locmem.LocMemCache"
    return {"default": {"BACKEND": backend, "OPTIONS": {"MAX_ENTRIES": MAX_ENTRIES}}}
