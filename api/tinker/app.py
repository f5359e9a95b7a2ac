"""The Tinker wire, ``/api/v1``: an ASGI application of its own, because most of its requests are held or passed on.

docs/reference/tinker.md lists every call, and what of it is refused.
"""

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from channels.db import database_sync_to_async
from pydantic import BaseModel, ValidationError

from api.relay.errors import RelayError
from api.relay.limits import limits
from api.relay.proxy import ClientGone, body_read
from api.rest.parsing import NUL, NUL_PROBLEM
from api.rest.rate_limit import key_requests_take
from api.tinker import account, audit, bookkeeping, compressed, records, refusals, search
from api.tinker.answers import Answer
from api.tinker.callers import TinkerCaller, caller_get
from api.tinker.numbers import Beginning
from api.tinker.relaying import RELAYED, relay, relay_refusal
from console.errors import BudgetExhausted, Conflict, DomainError, QuotaExceeded

PREFIX = "/api/v1/"
# What is passed on to a runtime may be larger, and of the rest what tells of a client.
MAX_SMALL_BODY_BYTES, MAX_TOLD_BODY_BYTES = 64 << 10, 1 << 20
TOLD = "telemetry"
OF_PROMISES = ("retrieve_future", "retrieve_futures", "cancel_future")  # ids alone; a refusal is its own id
RUN = r"training_runs/(?P<model_id>[^/]+)"
CHECKPOINT = RUN + r"/checkpoints/(?P<segment>weights|sampler_weights|external_weights)/(?P<name>[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("POST", "client/config", bookkeeping.client_config),
    ("POST", "client/dynamic_config", bookkeeping.client_dynamic_config),
    ("POST", "create_session", bookkeeping.session_create),
    ("POST", "session_heartbeat", bookkeeping.session_heartbeat),
    ("POST", r"sessions/(?P<session_id>[^/]+)/finish", bookkeeping.session_finish),
    ("POST", "telemetry", bookkeeping.telemetry),
    ("GET", "get_server_capabilities", bookkeeping.capabilities),
    ("GET", "healthz", bookkeeping.healthz),
    ("POST", "create_model", bookkeeping.model_create),
    ("POST", "get_info", bookkeeping.model_info),
    ("POST", "copy_weights", bookkeeping.weights_copy),
    ("POST", "create_sampling_session", bookkeeping.sampler_create),
    ("GET", r"samplers/(?P<sampler_id>[^/]+)", bookkeeping.sampler_get),
    ("GET", "training_runs", records.runs),
    ("GET", RUN, records.run),
    ("GET", RUN + "/checkpoints", records.run_checkpoints),
    ("DELETE", CHECKPOINT, records.checkpoint_delete),
    ("POST", CHECKPOINT + "/publish", records.checkpoint_publish),
    ("DELETE", CHECKPOINT + "/publish", records.checkpoint_unpublish),
    ("PUT", CHECKPOINT + "/ttl", records.checkpoint_ttl),
    ("GET", RUN + r"/checkpoints/external_weights/(?P<name>[^/]+)/external_weights_urls", records.external_urls),
    ("GET", "checkpoints", records.all_checkpoints),
    ("POST", "external_weights_upload_start", records.external_upload_start),
    ("POST", "external_weights_upload_finish", records.external_upload_finish),
    ("POST", "weights_info", records.weights_info),
    ("GET", "sessions", records.sessions),
    ("POST", "sessions/search", search.sessions_search),
    ("GET", r"sessions/(?P<session_id>[^/]+)", records.session),
    ("GET", r"sessions/(?P<session_id>[^/]+)/trace_export", records.trace_export),
    ("GET", "auth/apikey/me", records.key_get),
    ("DELETE", "auth/apikey/me", account.key_delete),
    ("POST", "auth/token", account.auth_token),
    ("GET", "audit", account.audit),
    ("GET", "billing/usage/events", account.usage_events),
    ("GET", "billing/usage/checkpoints/current", account.storage_usage),
    ("POST", "join_sampling_session", search.sampling_session_join),
    ("POST", "search_checkpoints|checkpoints/search", search.checkpoints_search),
    ("PUT", r"sessions/(?P<session_id>[^/]+)/project", search.session_project_set),
]
NUL_ESCAPED = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # how JSON writes it; a bare one is no JSON
OF_FUTURES = "create_model"
logger = logging.getLogger(__name__)
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


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
    headers = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(answer.body)).encode())]
    if answer.status == 401:  # on this a client asks for a token anew
        headers.append((b"www-authenticate", b'Bearer error="invalid_token"'))
    if answer.retry_after_s is not None:
        headers.append((b"retry-after", str(answer.retry_after_s).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _answer(scope: dict[str, Any], receive: Receive) -> Answer:
    path, method = scope["path"].removeprefix(PREFIX), scope["method"]
    caller = await caller_get(scope["headers"])
    named = [value.lower() for name, value in scope["headers"] if name == b"content-encoding"]
    encodings = [encoding for encoding in named if encoding != b"identity"]
    if encodings and (encodings, path) != ([compressed.ENCODING], compressed.PATH):
        return Answer.of({"detail": f"Of compressed bodies {PREFIX}{compressed.PATH} reads zstd, and no other."}, 415)
    if path in RELAYED and method == "POST":
        return await _relayed(path, caller, scope, receive, is_compressed=bool(encodings))
    body = await body_read(receive, None, limit_bytes=MAX_TOLD_BODY_BYTES if path == TOLD else MAX_SMALL_BODY_BYTES)
    if NUL in unquote(path) or NUL in unquote(scope.get("query_string", b"").decode("latin-1")):
        return Answer.of({"detail": f"The address {NUL_PROBLEM}."}, 400)
    found = None
    for wanted, pattern, handler in ROUTES:
        if matched := re.fullmatch(pattern, path):
            found = wanted
            if wanted == method:
                names = {name: unquote(value) for name, value in matched.groupdict().items()}
                handle = _promised if path == OF_FUTURES else _handle
                return await handle(handler, caller, body, names, scope)
    if found is not None:
        return Answer.of({"detail": f"{scope['path']} takes {found}, not {method}."}, 405)
    return Answer.of({"detail": f"There is nothing at {scope['path']}."}, 404)


async def _relayed(
    path: str, caller: TinkerCaller, scope: dict[str, Any], receive: Receive, *, is_compressed: bool
) -> Answer:
    with limits.hold(caller.key.id) as holding:
        beginning = Beginning(receive)
        try:
            most = MAX_TOLD_BODY_BYTES if path in OF_PROMISES else None
            body = await body_read(beginning, holding, limit_bytes=most)
            if is_compressed:
                holding.add(compressed.unpacked_size(body))
                body = await asyncio.to_thread(compressed.unpacked, body)
        except RelayError as refusal:
            number = beginning.number(path, is_compressed=is_compressed) if refusal.status in (400, 413) else None
            told = await relay_refusal(caller, *number, refusal.message) if number is not None else None
            if told is None:
                raise
            return told
        if path == "retrieve_future":
            known = refusals.promised(body)
            if known is not None:
                return known
        if path == "load_weights" and b'"session_id"' in body:
            return await _promised(bookkeeping.model_load, caller, body, {}, scope)
        return await relay(caller, path, body, scope["headers"])


async def _promised(
    handler: Callable[..., Answer], caller: TinkerCaller, body: bytes, names: dict[str, Any], scope: dict[str, Any]
) -> Answer:
    """A call that returns a future: what its user did wrong comes back through it."""
    try:
        answer = await _handle(handler, caller, body, names, scope)
    except (QuotaExceeded, BudgetExhausted):
        raise  # its client waits
    except DomainError as error:
        if error.status >= 500 or error.status == 429:
            raise
        return refusals.refused(f"{error.message} {error.hint}".strip())
    return answer if answer.status == 200 else refusals.refused(json.loads(answer.body)["detail"])


async def _handle(
    handler: Callable[..., Answer], caller: TinkerCaller, body: bytes, names: dict[str, Any], scope: dict[str, Any]
) -> Answer:
    wanted = inspect.signature(handler).parameters
    arguments: list[Any] = [caller]
    if (model := wanted.get("body")) is not None:
        if NUL_ESCAPED.search(body):
            return Answer.of({"detail": f"The body {NUL_PROBLEM}."}, 400)
        try:
            arguments.append(_model(model.annotation).model_validate_json(body or b"{}"))
        except ValidationError as error:
            return Answer.of({"detail": _problems(error)}, 400)
    if "query" in wanted:
        names["query"] = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
    if "once" in wanted:  # what a client repeats when it sends a request again
        names["once"] = dict(scope["headers"]).get(b"x-idempotency-key", b"").decode("latin-1")

    def counted() -> Answer:
        key_requests_take(caller.key, size_bytes=len(body))
        return audit.run(handler, arguments, names)

    return await database_sync_to_async(counted)()


def _model(annotation: Any) -> type[BaseModel]:
    return annotation


def _problems(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"{field}: {first['msg']}" if field else first["msg"]


def _refusal(error: DomainError) -> Answer:
    """A client tries 409 and 429 again for minutes: what no repetition changes gets 400, a limit that may pass 402."""
    status = error.status
    if isinstance(error, QuotaExceeded | BudgetExhausted):
        status = 402
    elif isinstance(error, Conflict):
        status = 400
    body = {"detail": f"{error.message} {error.hint}".strip(), "code": error.code, "details": error.details}
    return Answer.of(body, status, error.details.get("retry_after_s"))
