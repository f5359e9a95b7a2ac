"""The view class of a path: Django REST framework's, which takes its policies from the routes of
that path.
"""

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.rest.errors import MethodNotAllowed, exception_handler
from api.rest.parsing import NUL, Query, StrictJsonParser, body_validate, query_read
from api.rest.rate_limit import CallerThrottle, allowance_show
from api.rest.rendering import JsonAlways, JsonRenderer
from api.rest.requests import ApiRequest
from api.rest.route import Route
from api.rest.schema import RouteSchema
from console.errors import NotFound


class Endpoint(APIView):
    """All methods of one path. Authentication comes first, then the count of requests, then the
    permission.
    """

    routes: Mapping[str, Route] = {}
    # the views by method, with all that their rows ask for
    runs: Mapping[str, Callable[..., Any]] = {}
    renderer_classes = (JsonRenderer,)
    parser_classes = (StrictJsonParser,)
    throttle_classes = (CallerThrottle,)
    content_negotiation_class = JsonAlways
    schema = RouteSchema()
    format_kwarg = None

    @property
    def route(self) -> Route | None:
        """The row of the table for the request's method."""
        return self.routes.get(self.request.method or "") if self.request else None

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> ApiRequest:
        return ApiRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Everything before the view. Raises DomainError."""
        if self.route is None:
            raise MethodNotAllowed(request.method, self.routes)
        self.perform_authentication(request)
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(
            request
        )
        self.check_throttles(request)
        self.check_permissions(request)

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [each() for each in self.route.access.authentication_classes] if self.route else []

    def get_permissions(self) -> list[BasePermission]:
        return [self.route.access] if self.route else []

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return exception_handler

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {}

    def arguments(self, request: Request, ids: dict[str, str]) -> dict[str, Any]:
        """What the view takes beside the request. Raises InvalidRequest, NotFound."""
        route = self.route
        assert route is not None  # ``initial`` refused the method otherwise
        if NUL in request.path:
            raise NotFound("There is nothing here.")
        values: dict[str, Any] = dict(ids)
        query = query_read(request.query_params, route.query or Query)
        if route.query is not None:
            values["query"] = query
        if route.body is not None:
            values["body"] = body_validate(request.data, route.body)
        return values

    def handle(self, request: Request, **ids: str) -> Any:
        """What ``get``, ``post``, ``patch`` and ``delete`` are."""
        return self.runs[request.method or ""](request, **self.arguments(request, ids))

    async def handle_waiting(self, request: Request, **ids: str) -> HttpResponseBase:
        """What they are where the view is a coroutine: Django's views have such, DRF's ``dispatch``
        does not."""
        try:
            await sync_to_async(self.initial)(request, **ids)
            response = await self.handle(request, **ids)
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

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = _plain(super().finalize_response(request, response, *args, **kwargs))
        allowance_show(request, response)
        return response


def _plain(response: HttpResponseBase) -> HttpResponseBase:
    """A response of JSON, written here: Django would go to another thread to render it."""
    if not isinstance(response, Response):
        return response
    content = response.rendered_content
    plain = HttpResponse(content, status=response.status_code)
    del plain["Content-Type"]  # what has no content has none
    for name, value in response.items():
        plain[name] = value
    return plain
