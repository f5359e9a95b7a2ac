"""The LLM relay: ``/openai/v1/*`` with an episode key, to the gateway that serves the episode, and
back.

It authenticates by signature, looks the route up in a cache, and has proxy.py copy bytes: it parses
no body.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from api.forward import GatewayRequest
from api.relay.callers import verified_claim
from api.relay.errors import RelayError, stream_error
from api.relay.limits import limits
from api.relay.proxy import ClientGone, CountingSend, body_read, headers_passed, proxy_until_end
from console.server.logs import logs_bind
from console.server.metrics import RELAY_BYTES, RELAY_IN_FLIGHT, RELAY_REQUESTS
from console.server.request_limits import Receive, Send
from tinkerscript.processes.tracing import span
from tinkerscript.wire.dialects.table import BESIDE_V1, PREFIX_OF_ALL

logger = logging.getLogger(__name__)

Serve = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


async def relay(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request with an episode key."""
    await relay_by(_serve, scope, receive, send)


async def relay_by(serve: Serve, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Have ``serve`` answer one request; its errors get the body of the path's dialect.

    When the client disconnects, the request to the gateway is cancelled at once.
    """
    counted, path = CountingSend(send), scope["path"]
    try:
        with (
            RELAY_IN_FLIGHT.track_inprogress(),
            span("relay", lambda: _text(scope["headers"]), path=path) as traced,
        ):
            try:
                await serve(scope, receive, counted)
            finally:
                if traced is not None and counted.status:
                    traced.set_attribute("status", counted.status)
    except RelayError as error:
        if counted.status:  # the key expired or was revoked during the response
            await counted({"type": "http.response.body", "body": stream_error(error.message, path)})
        else:
            await error.send(counted, path)
    except ClientGone:
        pass
    except Exception:
        # After the headers are sent a web server can only break the connection: the error goes into
        # the stream instead.
        logger.exception("The relay failed")
        if counted.status:
            last = stream_error("The relay failed in mid-answer.", path)
            await counted({"type": "http.response.body", "body": last})
        else:
            internal = RelayError(500, "internal", "Something went wrong on the server. Try again.")
            await internal.send(counted, path)
    finally:
        RELAY_REQUESTS.labels(counted.status or "gone").inc()
        RELAY_BYTES.labels("down").inc(counted.size_bytes)


def _text(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


async def _serve(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    claim = verified_claim(scope["headers"])
    url_path = _path(scope)
    logs_bind(session_id=claim.session_id)
    with limits.hold(claim.key_id or claim.session_id) as holding:
        body = await body_read(receive, holding)
        headers = headers_passed(scope["headers"])
        request = GatewayRequest(scope["method"], url_path, headers, body, by_relay_key=False)
        await proxy_until_end(claim.session_id, claim.key_id, request, receive, send)


def _path(scope: dict[str, Any]) -> str:
    """The gateway's path and query, exactly as sent. Raises RelayError for anything that could
    leave /v1/ and ``BESIDE_V1``.
    """
    path = scope["path"].removeprefix(PREFIX_OF_ALL)
    raw = (scope.get("raw_path") or scope["path"].encode()).decode("ascii")
    is_known = path.startswith("/v1/") or path in BESIDE_V1
    # As sent, too, it begins like this: what is left of it stands behind the gateway's port.
    if (
        not (is_known and raw.startswith(f"{PREFIX_OF_ALL}/"))
        or {".", ".."} & set(path.split("/"))
        or "\\" in path
    ):
        raise RelayError(
            404,
            "not_found",
            f"There is nothing at {scope['path']}. The base_url ends in /openai/v1.",
        )
    query = scope.get("query_string", b"")
    return raw.removeprefix(PREFIX_OF_ALL) + (f"?{query.decode('ascii')}" if query else "")
