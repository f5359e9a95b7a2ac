"""How the rows of REST are served: a view class for each path, which Django's table of URLs leads
to.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from pydantic import BaseModel
from rest_framework.response import Response

from api.rest.audit import audited
from api.rest.endpoint import Endpoint
from api.rest.idempotency import idempotent
from api.rest.route import PARAMETER, Route, RouteTable


def url_patterns(table: RouteTable) -> list[URLPattern]:
    """A pattern for each path, to be mounted under the table's prefix."""
    return [
        path(PARAMETER.sub(r"<\1>", template.lstrip("/")), _endpoint(routes).as_view())
        for template, routes in table.paths.items()
    ]


def _endpoint(routes: dict[str, Route]) -> type[Endpoint]:
    """The view class of one path, whose methods are all async or all not."""
    waits = any(route.is_async for route in routes.values())
    names = [method.lower() for method in routes]
    handlers = {name: Endpoint.handle_waiting if waits else Endpoint.handle for name in names}
    runs = {method: _run(route) for method, route in routes.items()}
    return type(
        "Endpoint",
        (Endpoint,),
        handlers | {"routes": routes, "runs": runs, "http_method_names": names},
    )


def _run(route: Route) -> Callable[..., Any]:
    """The view and all that the row asks for."""
    run = _presented(route.view, route.status)
    if route.audit:
        run = audited(run, route.audit)
    return idempotent(run, secret=route.secret) if route.once else run


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
