"""Connections to the database of a request that goes on to wait: it gives them back before it does."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


def released_after(read: Callable[P, T]) -> Callable[P, T]:
    """``read``, after which its thread holds no connection that is over its age; one in a transaction stays."""

    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        finally:
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    connection.close_if_unusable_or_obsolete()

    return reading
