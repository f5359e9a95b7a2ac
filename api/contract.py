"""How a route is declared: method, path, view, who may, what it answers. The rest is the same for all."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, get_origin

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel

from api.auditing import audited
from api.auth import Door, LeaseDoor
from api.errors import (
    UNKNOWN,
    MethodNotAllowed,
    error_response,
    fields_error,
    internal_error_response,
    parse_error,
    validation_error,
)
from api.idempotency import idempotent
from api.parsing import NUL, NUL_PROBLEM, StrictParser
from api.rate_limit import allowance_show
from console.errors import DomainError, NotFound

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ID = re.compile(r"{(\w+)}")


class Api(NinjaAPI):
    """Ninja with our error body, our parser, and one way to declare a route."""

    def __init__(self) -> None:
        super().__init__(
            title="TinkerScript",
            version="1",
            description="Full-weight reinforcement learning of language models, as a service.",
            urls_namespace="v1",
            parser=StrictParser(),
            docs_url=None,
            openapi_url=None,
        )
        self.methods: dict[str, set[str]] = {}  # of each path
        self.once: set[str] = set()  # the paths whose POST is done once for each Idempotency-Key
        self.add_exception_handler(DomainError, error_response)
        self.add_exception_handler(ValidationError, lambda request, e: error_response(request, validation_error(e)))
        self.add_exception_handler(HttpError, lambda request, e: error_response(request, parse_error(e)))
        self.add_exception_handler(Exception, internal_error_response)

    def route(
        self,
        method: str,
        path: str,
        view: Callable[..., Any],
        door: Door | LeaseDoor,
        answer: type[BaseModel] | None,
        *,
        status: int = 200,
        once: bool = False,
        secret: bool = False,
        audit: bool | None = None,
    ) -> None:
        """Declare one route. ``answer`` None has no body.

        ``once`` keeps the answer under the request's Idempotency-Key, unless it is ``secret``. ``audit`` puts what
        was done in the audit log: by default whatever is done here, and not by a gateway, that is more than reading.
        """
        answering = _answering(view, path, status)
        by_caller = isinstance(door, Door)
        if audit is None:
            audit = by_caller and method != "GET" and not inspect.iscoroutinefunction(view)
        if audit:
            answering = audited(answering)
        if once:
            answering = idempotent(answering, secret=secret)
            self.once.add(path)
        self.default_router.add_api_operation(
            path,
            [method],
            _with_allowance(answering) if by_caller else answering,
            auth=door,
            response={status: answer},
            operation_id=view.__name__,
            summary=(view.__doc__ or view.__name__).strip().splitlines()[0],
            include_in_schema=not isinstance(door, LeaseDoor),
        )
        self.methods.setdefault(path, set()).add(method)

    def close(self) -> None:
        """After the last route: every other method of each path answers 405 with our body."""
        for path, methods in self.methods.items():
            others = [method for method in METHODS if method not in methods]
            self.default_router.add_api_operation(
                path, others, _method_not_allowed(path, sorted(methods)), auth=None, include_in_schema=False
            )


def _method_not_allowed(path: str, methods: list[str]) -> Callable[..., HttpResponse]:
    def method_not_allowed(request: HttpRequest, **ids: str) -> HttpResponse:
        allowed = ", ".join(methods)
        error = MethodNotAllowed(f"{request.method} is not allowed here.", hint=f"This path takes {allowed}.")
        response = error_response(request, error)
        response["Allow"] = allowed
        return response

    names = ["request", *ID.findall(path)]  # Ninja wants to see the ids of the path in the signature
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    method_not_allowed.__signature__ = inspect.Signature(parameters)
    return method_not_allowed


def _answering(view: Callable[..., Any], path: str, status: int) -> Callable[..., Any]:
    """``view`` with its answer written as JSON, and with refused what of a query it would leave out of account."""
    taken = inspect.signature(view).parameters
    known = set(taken) - {"request", "body", *ID.findall(path)}
    once = {name for name in known if get_origin(taken[name].annotation) is not list}

    def check(request: HttpRequest) -> None:
        if NUL in request.path:
            raise NotFound("There is nothing here.")
        problems = {name: UNKNOWN for name in sorted(set(request.GET) - known)}
        problems |= {name: "given more than once" for name in sorted(once) if len(request.GET.getlist(name)) > 1}
        problems |= {
            name: NUL_PROBLEM for name in known & set(request.GET) if NUL in "".join(request.GET.getlist(name))
        }
        if problems:
            raise fields_error([{"field": name, "problem": problem} for name, problem in problems.items()])

    def present(answer: BaseModel | HttpResponseBase | None) -> HttpResponseBase:
        if isinstance(answer, HttpResponseBase):  # a gateway's, passed on
            return answer
        if answer is None:
            return HttpResponse(status=status)
        return HttpResponse(answer.model_dump_json(), status=status, content_type="application/json")

    if inspect.iscoroutinefunction(view):

        @functools.wraps(view)
        async def answering(request: HttpRequest, **values: Any) -> HttpResponseBase:
            check(request)
            return present(await view(request, **values))

    else:

        @functools.wraps(view)
        def answering(request: HttpRequest, **values: Any) -> HttpResponseBase:
            check(request)
            return present(view(request, **values))

    return answering


def _with_allowance(answering: Callable[..., Any]) -> Callable[..., Any]:
    """Every answer says how much the caller may still ask; refusals do so by ``error_response``."""
    if inspect.iscoroutinefunction(answering):

        @functools.wraps(answering)
        async def showing(request: HttpRequest, **values: Any) -> HttpResponse:
            return allowance_show(request, await answering(request, **values))

    else:

        @functools.wraps(answering)
        def showing(request: HttpRequest, **values: Any) -> HttpResponse:
            return allowance_show(request, answering(request, **values))

    return showing
