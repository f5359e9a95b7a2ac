"""Heartbeats, the most of what the lease process is asked, past Django's handling of a request.

That handling (three threads' turns, routes, a view's policies) takes as much of a processor as the heartbeat itself. So
a heartbeat that is as runtimes send it is executed here at once, in one turn of one thread. Everything else goes to
Django as it came: other requests, and a heartbeat that is refused or fails, which has changed nothing and is told why.
"""

import logging
import re
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpResponse

from api.rest.parsing import MAX_MEMBERS, body_validate, json_read
from console.errors import DomainError
from console.plain_requests import plain_headers_set
from console.server.address_limit import caller_known
from console.server.logs import logs_bind
from console.server.metrics import request_count
from console.server.request_limits import Asgi, Receive, Send
from console.server.security_headers import security_headers_set
from console.sessions.runtime.leases import lease_named, runtime_heartbeat
from tinkerscript.wire.runtime import RuntimeState

PATH = "/v1/runtime/heartbeat"
# What Django would take for a host and a bearer's token, and less of it.
HOST, BEARER = re.compile(rb"[A-Za-z0-9.\-]+(?::[0-9]+)?"), re.compile(rb"Bearer ([A-Za-z0-9._\-]+)")

log = logging.getLogger(__name__)


class Heartbeats:
    """An ASGI application: heartbeats, and ``django`` for all else. It is to have a thread to itself (KeptThreads)."""

    def __init__(self, django: Asgi) -> None:
        self._django = django

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        began, token = time.monotonic(), _token(scope)
        if token is None:
            await self._django(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        is_whole = messages[-1]["type"] == "http.request"  # else it was too long, or the runtime is gone
        body = b"".join(message.get("body", b"") for message in messages)
        orders = await sync_to_async(_orders)(token, body) if is_whole else None
        if orders is None:
            await self._django(scope, _again(messages, receive), send)
            return
        response = HttpResponse(orders, content_type="application/json", headers={"Vary": "Accept"})
        plain_headers_set(security_headers_set(PATH, response))
        request_count(
            route=PATH.removeprefix("/"), method="POST", status=response.status_code, seconds=time.monotonic() - began
        )
        headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": response.content})


def _token(scope: dict[str, Any]) -> str | None:
    """The lease of a heartbeat; None for what Django is to look at."""
    if scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"] or scope.get("root_path"):
        return None
    headers = dict(scope["headers"])
    bearer = BEARER.fullmatch(headers.get(b"authorization", b""))
    is_one = len(headers) == len(scope["headers"])  # of each header
    if not (bearer and is_one and HOST.fullmatch(headers.get(b"host", b""))) or b"x-forwarded-host" in headers:
        return None
    return bearer[1].decode()


def _orders(token: str, body: bytes) -> str | None:
    """Take the heartbeat; the orders in JSON. None where Django has to say why it was not taken."""
    close_old_connections()
    try:
        session = lease_named(token=token)
        state = body_validate(json_read(body, MAX_MEMBERS), RuntimeState)
        logs_bind(session_id=session.id)
        orders = runtime_heartbeat(session=session, body=state)
        caller_known()
        return orders.model_dump_json()
    except DomainError:
        return None
    except Exception:
        log.info("a heartbeat failed; it is executed again", exc_info=True)
        return None
    finally:
        close_old_connections()


def _again(messages: list[dict[str, Any]], receive: Receive) -> Receive:
    """``receive`` that begins with what was received already."""
    waiting = iter(messages)

    async def receive_again() -> dict[str, Any]:
        message = next(waiting, None)
        return await receive() if message is None else message

    return receive_again
