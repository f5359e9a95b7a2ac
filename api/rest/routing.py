"""How a route is declared: method, path, view, who may call it, what it returns. The rest is the same for all."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from pydantic import BaseModel
from rest_framework.response import Response

from api.rest.audit import audited
from api.rest.endpoint import Endpoint
from api.rest.idempotency import idempotent
from api.rest.permissions import RequireLease, RequireScope, RequireShare
from api.rest.route import PARAMETER, Route


class RouteTable:
    """Every route of the API. ``paths`` has the routes of each path by their methods."""

    def __init__(self) -> None:
        self.paths: dict[str, dict[str, Route]] = {}

    def __iter__(self) -> Iterator[Route]:
        return (route for routes in self.paths.values() for route in routes.values())

    def route(
        self,
        method: str,
        path: str,
        view: Callable[..., Any],
        access: RequireScope | RequireLease | RequireShare,
        result: type[BaseModel] | None,
        *,
        status: int = 200,
        once: bool = False,
        secret: bool = False,
        audit: bool | None = None,
        large: bool = False,
    ) -> None:
        """Declare one route. ``result`` is the type of the body; None: no body, or a gateway's.

        ``view`` takes the request, the names in the path, and where its signature has them ``body`` (a wire type) and
        ``query`` (a Query). ``once`` keeps the response under the request's Idempotency-Key, unless it is ``secret``.
        ``audit`` puts what was done in the audit log: by default for all that is more than reading and that is done
        here, not by a gateway. A ``large`` body may have 2 MiB and 50,000 members, any other 64 KiB and 1,000
        (console/server/request_limits.py).
        """
        if audit is None:
            is_local = not inspect.iscoroutinefunction(view)
            audit = isinstance(access, RequireScope) and method != "GET" and is_local
        run = _presented(view, status)
        if audit:
            run = audited(run)
        if once:
            run = idempotent(run, secret=secret)
        types = inspect.get_annotations(view, eval_str=True)
        self.paths.setdefault(path, {})[method] = Route(
            method, path, view, access, result, status, once, types.get("body"), types.get("query"), run, large
        )

    @property
    def urls(self) -> list[URLPattern]:
        """A pattern for each path, to be mounted under /v1/."""
        return [
            path(PARAMETER.sub(r"<\1>", template.lstrip("/")), _endpoint(routes).as_view())
            for template, routes in self.paths.items()
        ]


def _endpoint(routes: dict[str, Route]) -> type[Endpoint]:
    """The view class of one path, whose methods are all async or all not."""
    waits = any(route.is_async for route in routes.values())
    names = [method.lower() for method in routes]
    handlers = {name: Endpoint.handle_waiting if waits else Endpoint.handle for name in names}
    return type("Endpoint", (Endpoint,), handlers | {"routes": routes, "http_method_names": names})


def _presented(view: Callable[..., Any], status: int) -> Callable[..., Any]:
    """``view`` with its result as a response."""

    def present(result: BaseModel | HttpResponseBase | None) -> HttpResponseBase:
        if isinstance(result, HttpResponseBase):  # a gateway's, passed on as it is
            return result
        return Response(result, status=status)

    if inspect.iscoroutinefunction(view):

        @functools.wraps(view)
        async def presented_async(request: Any, **values: Any) -> HttpResponseBase:
            return present(await view(request, **values))

        return presented_async

    @functools.wraps(view)
    def presented(request: Any, **values: Any) -> HttpResponseBase:
        return present(view(request, **values))

    return presented
