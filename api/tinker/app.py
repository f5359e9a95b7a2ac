"""The Tinker wire, ``/api/v1``: an ASGI application of its own, because most of its requests are
held or passed on.

routes.py lists every call; docs/reference/tinker.md has what of it is refused.
"""

import asyncio
import json
import logging
import re
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from channels.db import database_sync_to_async
from pydantic import ValidationError

from api.relay.callers import header_value
from api.relay.errors import BodyTooLarge, RelayError
from api.relay.limits import limits
from api.relay.proxy import BEGINNING_BYTES, ClientGone, body_read
from api.rest.audit import audited
from api.rest.authentication import KeyCaller
from api.rest.parsing import NUL, NUL_PROBLEM
from api.rest.permissions import RequireScope
from api.rest.rate_limit import requests_take
from api.rest.route import Route
from api.tinker import bookkeeping
from api.tinker.answers import Answer, refusal_read, refused
from api.tinker.callers import caller_of
from api.tinker.operations import (
    COMPRESSED,
    COMPRESSED_PATH,
    operation_begun,
    operation_read,
    unpacked,
    unpacked_size,
)
from api.tinker.relaying import relay, relay_refusal
from api.tinker.routes import key, wire
from console.errors import BudgetExhausted, Conflict, DomainError, QuotaExceeded
from console.server.request_limits import Receive, Send, response_send

NUL_ESCAPED = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # how JSON writes it; a bare one is no JSON
# with a session: it makes a model
LOAD = Route("POST", "/load_weights", bookkeeping.model_load, key, promises=True)
logger = logging.getLogger(__name__)


async def tinker(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request."""
    try:
        answer = await _answer(scope, receive)
    except ClientGone:
        return
    except DomainError as error:
        answer = _refusal(error)
    except RelayError as error:  # too many at once
        answer = Answer.of({"detail": error.message}, error.status, error.retry_after_s)
    except Exception:  # the top of a request
        logger.exception("A request of a Tinker client failed")
        answer = Answer.of({"detail": "Something went wrong on the server. Try again."}, 500)
    more = []
    if answer.status == 401:  # on this a client asks for a token anew
        more.append((b"www-authenticate", b'Bearer error="invalid_token"'))
    if answer.retry_after_s is not None:
        more.append((b"retry-after", str(answer.retry_after_s).encode()))
    await response_send(send, answer.status, answer.body, *more, kind=answer.content_type)


async def _answer(scope: dict[str, Any], receive: Receive) -> Answer:
    path, method = scope["path"].removeprefix(wire.prefix), scope["method"]
    caller = await caller_of(header_value(scope["headers"], b"x-api-key").strip())
    if NUL in unquote(path) or NUL in unquote(scope.get("query_string", b"").decode("latin-1")):
        return Answer.of({"detail": f"The address {NUL_PROBLEM}."}, 400)
    found = wire.find(path)
    row = next(((routes[method], ids) for routes, ids in found if method in routes), None)
    if row is None and found:
        takes = ", ".join(sorted({name for routes, _ in found for name in routes}))
        return Answer.of({"detail": f"{scope['path']} takes {takes}, not {method}."}, 405)
    if row is None:
        return Answer.of({"detail": f"There is nothing at {scope['path']}."}, 404)
    route, ids = row
    assert isinstance(route.access, RequireScope), "the wire has keys alone"
    route.access.check(caller)
    named = [value.lower() for name, value in scope["headers"] if name == b"content-encoding"]
    encodings = [encoding for encoding in named if encoding != b"identity"]
    if encodings and (encodings, path) != ([COMPRESSED], COMPRESSED_PATH):
        return Answer.of(
            {
                "detail": f"Of compressed bodies {wire.prefix}{COMPRESSED_PATH} reads zstd, and no "
                "other."
            },
            415,
        )
    if route.is_async:
        return await _relayed(route, caller, scope, receive, is_compressed=bool(encodings))
    body = await body_read(receive, None, limit_bytes=route.limit_bytes)
    ids = {name: unquote(value) for name, value in ids.items()}
    return await (_promised if route.promises else _handle)(route, caller, body, ids, scope)


async def _relayed(
    route: Route, caller: KeyCaller, scope: dict[str, Any], receive: Receive, *, is_compressed: bool
) -> Answer:
    kind = route.path[1:]
    with limits.hold(caller.key.id) as holding:
        body = b""
        try:
            body = await body_read(receive, holding, limit_bytes=route.limit_bytes)
            if is_compressed:
                holding.add(unpacked_size(body))
                body = await asyncio.to_thread(unpacked, body)
        except RelayError as refusal:
            if refusal.status not in (400, 413):
                raise
            beginning = (
                refusal.beginning if isinstance(refusal, BodyTooLarge) else body[:BEGINNING_BYTES]
            )
            begun = operation_begun(kind, beginning, is_compressed=is_compressed)
            if begun and (promise := await relay_refusal(caller, begun, refusal.message)):
                return promise
            raise
        if kind == "retrieve_future" and (known := refusal_read(body)):
            return known
        if kind == "load_weights" and b'"session_id"' in body:
            return await _promised(LOAD, caller, body, {}, scope)
        operation, url_path = operation_read(kind, body), wire.prefix + route.path
        return await relay(caller, operation, url_path, body, scope["headers"])


async def _promised(
    route: Route, caller: KeyCaller, body: bytes, ids: dict[str, str], scope: dict[str, Any]
) -> Answer:
    """A call that returns a future: what its user did wrong comes back through it."""
    try:
        answer = await _handle(route, caller, body, ids, scope)
    except (QuotaExceeded, BudgetExhausted):
        raise  # its client waits
    except DomainError as error:
        if error.status >= 500 or error.status == 429:
            raise
        return refused(f"{error.message} {error.hint}".strip())
    return answer if answer.status == 200 else refused(json.loads(answer.body)["detail"])


async def _handle(
    route: Route, caller: KeyCaller, body: bytes, ids: dict[str, str], scope: dict[str, Any]
) -> Answer:
    values: dict[str, Any] = {"caller": caller, **ids}
    if route.body is not None:
        if NUL_ESCAPED.search(body):
            return Answer.of({"detail": f"The body {NUL_PROBLEM}."}, 400)
        try:
            values["body"] = route.body.model_validate_json(body or b"{}")
        except ValidationError as error:
            return Answer.of({"detail": _problems(error)}, 400)
    if "query" in route.takes:
        values["query"] = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
    if "once" in route.takes:
        values["once"] = dict(scope["headers"]).get(b"x-idempotency-key", b"").decode("latin-1")

    work = partial(route.view, **values)
    if route.audit:
        work = partial(audited, work, route.audit, caller, ids, values.get("body"))

    def counted() -> Answer:
        requests_take(caller, size_bytes=len(body))
        result = work()
        if result is None:
            return Answer(204, b"")
        return result if isinstance(result, Answer) else Answer.of(result)

    return await database_sync_to_async(counted)()


def _problems(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"{field}: {first['msg']}" if field else first["msg"]


def _refusal(error: DomainError) -> Answer:
    """A client tries 409 and 429 again for minutes: what no repetition changes gets 400, a limit
    that may pass 402.
    """
    status = error.status
    if isinstance(error, QuotaExceeded | BudgetExhausted):
        status = 402
    elif isinstance(error, Conflict):
        status = 400
    body = {
        "detail": f"{error.message} {error.hint}".strip(),
        "code": error.code,
        "details": error.details,
    }
    return Answer.of(body, status, error.details.get("retry_after_s"))
