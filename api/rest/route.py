"""The table of routes: what a row says of a route of REST or of the Tinker wire, and how a path
finds its row.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from api.rest.parsing import Query
from api.rest.permissions import RequireLease, RequireScope, RequireShare
from console.server.request_limits import MAX_BODY_BYTES

PARAMETER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Route:
    """One row.

    ``view`` takes, all by name, who asks (``grants`` of ``access``), the names in the path, and
    where its signature has them ``body`` (a type of the wire), ``query``, ``once`` (what a client
    repeats when it sends a request again) and ``request`` (Django's). A view that is a coroutine
    passes the request on to a runtime.

    ``result`` is the type of the body; None: no body, or a file. ``once`` keeps the response under
    the request's Idempotency-Key, unless it is ``secret``. ``audit`` is the action under which the
    audit log has what was done; empty: it has no entry. ``promises``: what its caller did wrong
    comes back through a future.
    """

    method: str
    path: str
    view: Callable[..., Any]
    access: RequireScope | RequireLease | RequireShare
    result: type[BaseModel] | None = None
    status: int = 200
    once: bool = False
    secret: bool = False
    audit: str = ""
    limit_bytes: int = MAX_BODY_BYTES
    promises: bool = False

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.view)

    @property
    def ids(self) -> list[str]:
        """The names in the path."""
        return PARAMETER.findall(self.path)

    @cached_property
    def takes(self) -> dict[str, Any]:
        """The types of what the view takes, by their names."""
        return inspect.get_annotations(self.view, eval_str=True)

    @property
    def body(self) -> type[BaseModel] | None:
        return self.takes.get("body")

    @property
    def query(self) -> type[Query] | None:
        return self.takes.get("query")


class RouteTable:
    """The rows of one wire. ``paths`` has the routes of each path by their methods."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.paths: dict[str, dict[str, Route]] = {}

    def __iter__(self) -> Iterator[Route]:
        return (route for routes in self.paths.values() for route in routes.values())

    def route(
        self,
        method: str,
        path: str,
        view: Callable[..., Any],
        access: RequireScope | RequireLease | RequireShare,
        result: type[BaseModel] | None = None,
        *,
        audit: bool | str | None = None,
        **more: Any,
    ) -> None:
        """Declare one row; ``more`` are further fields of it.

        ``result`` stands here where the view returns a gateway's response; else it is the type that
        the view returns. One that returns nothing answers 204.

        ``audit``: by default all that is more than reading, and that is done here and not by a
        runtime, has an entry under the view's name.
        """
        if audit is None:
            audit = (
                isinstance(access, RequireScope)
                and method != "GET"
                and not inspect.iscoroutinefunction(view)
            )
        action = view.__name__ if audit is True else audit or ""
        returns = inspect.get_annotations(view, eval_str=True)["return"]
        if returns is None:
            more.setdefault("status", 204)
        elif result is None and isinstance(returns, type) and issubclass(returns, BaseModel):
            result = returns
        self.paths.setdefault(path, {})[method] = Route(
            method, path, view, access, result, audit=action, **more
        )

    def find(self, path: str) -> list[tuple[Mapping[str, Route], dict[str, str]]]:
        """The rows by method of each path that ``path``, without the prefix, may be, with the ids
        in it.
        """
        return [
            (routes, found.groupdict())
            for form, routes in self._forms
            if (found := form.fullmatch(path))
        ]

    def limit_bytes(self, path: str) -> int:
        """How many bytes the body of a request to ``path`` may have."""
        found = self.find(path.removeprefix(self.prefix)) if path.startswith(self.prefix) else []
        return max(
            (route.limit_bytes for routes, _ in found for route in routes.values()),
            default=MAX_BODY_BYTES,
        )

    @cached_property
    def _forms(self) -> list[tuple[re.Pattern[str], dict[str, Route]]]:
        return [
            (re.compile(PARAMETER.sub(r"(?P<\1>[^/]+)", path)), routes)
            for path, routes in self.paths.items()
        ]
