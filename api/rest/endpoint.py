"""How the rows of REST are served: a view class of Django REST framework for each path, to which
Django's table of URLs leads.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.http.request import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from pydantic import BaseModel
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from api.rest.audit import audited
from api.rest.authentication import Caller
from api.rest.errors import MethodNotAllowed, json_response
from api.rest.idempotency import done_once
from api.rest.parsing import NUL, Query, body_read, query_read
from api.rest.rate_limit import requests_take
from api.rest.route import PARAMETER, Route, RouteTable
from console.errors import NotFound
from console.server.request_id import request_id_of
from console.sessions.sharing.models import ShareLink


def url_patterns(table: RouteTable) -> list[URLPattern]:
    """A pattern for each path, to be mounted under the table's prefix."""
    return [
        path(PARAMETER.sub(r"<\1>", template.lstrip("/")), _endpoint(routes).as_view())
        for template, routes in table.paths.items()
    ]


def _endpoint(routes: Mapping[str, Route]) -> "type[Endpoint]":
    """The view class of one path, whose methods are all async or all not."""
    waits = any(route.is_async for route in routes.values())
    handle = Endpoint.handle_waiting if waits else Endpoint.handle
    names = [method.lower() for method in routes]
    handlers = dict.fromkeys(names, handle)
    return type("Endpoint", (Endpoint,), handlers | {"routes": routes, "http_method_names": names})


class Endpoint(APIView):
    """All methods of one path. Authentication comes first, then the count of requests, then the
    permission.
    """

    routes: Mapping[str, Route] = {}

    @property
    def route(self) -> Route | None:
        """The row of the table for the request's method."""
        return self.routes.get(self.request.method or "") if self.request else None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Everything before the view. Raises DomainError."""
        if self.route is None:
            raise MethodNotAllowed(request.method, self.routes)
        self.perform_authentication(request)
        if isinstance(request.auth, Caller | ShareLink):  # no other is known
            requests_take(request.auth, size_bytes=len(request.body), headers=self.headers)
        self.check_permissions(request)

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [each() for each in self.route.access.authentication_classes] if self.route else []

    def get_permissions(self) -> list[BasePermission]:
        return [self.route.access] if self.route else []

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {}

    def arguments(self, request: Request, ids: dict[str, str]) -> dict[str, Any]:
        """What the view takes, by name. Raises InvalidRequest, NotFound."""
        route, http = self.route, _http(request)
        assert route is not None  # ``initial`` refused the method otherwise
        if NUL in http.path:
            raise NotFound("There is nothing here.")
        values: dict[str, Any] = {route.access.grants: request.auth, **ids}
        if "request" in route.takes:
            values["request"] = http
        query = query_read(http.GET, route.query or Query)
        if route.query is not None:
            values["query"] = query
        if route.body is not None:
            values["body"] = body_read(http.body, route.body, limit_bytes=route.limit_bytes)
        return values

    def handle(self, request: Request, **ids: str) -> HttpResponseBase:
        """What ``get``, ``post``, ``patch`` and ``delete`` are."""
        route, http = self.route, _http(request)
        values, caller = self.arguments(request, ids), cast(Caller, request.auth)
        assert route is not None
        work = partial(route.view, **values)
        if route.audit:
            work = partial(
                audited, work, route.audit, caller, ids, values.get("body"), request_id_of(http)
            )
        if not route.once:
            return _response(work(), route.status)
        return done_once(
            lambda: _response(work(), route.status), http, caller.project, secret=route.secret
        )

    async def handle_waiting(self, request: Request, **ids: str) -> HttpResponseBase:
        """What they are where the view is a coroutine: Django's views have such, DRF's ``dispatch``
        does not."""
        try:
            await sync_to_async(self.initial)(request, **ids)
            assert self.route is not None
            result = await self.route.view(**self.arguments(request, ids))
            response: Any = _response(result, self.route.status)
        except Exception as error:  # noqa: BLE001 - as APIView.dispatch does: each becomes the one error body
            response = self.handle_exception(error)
        self.response = self.finalize_response(request, response, **ids)
        return self.response

    def dispatch(self, request: HttpRequest, *args: Any, **ids: str) -> Any:
        if not self.view_is_async:
            return super().dispatch(request, *args, **ids)
        self.args, self.kwargs = args, ids
        self.request = self.initialize_request(request, *args, **ids)
        self.headers = self.default_response_headers
        return self.handle_waiting(self.request, **ids)


def _http(request: Request) -> HttpRequest:
    """Django's own request, which middleware and log filters see."""
    return request._request  # noqa: SLF001 - DRF's only name for it


def _response(result: BaseModel | HttpResponseBase | None, status: int) -> HttpResponseBase:
    if isinstance(result, HttpResponseBase):  # a gateway's, passed on as it is
        return result
    return json_response("" if result is None else result.model_dump_json(), status)
