"""A request on its way to the gateway of its session and back: one loop for the relay, REST and the
Tinker wire.

It waits until the session is ready, sends the request, and has the answer delivered. A runtime that
is lost before the client got anything looks like a slow answer: the request is sent again, with the
same X-Request-Id.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
from channels.db import database_sync_to_async
from multidict import CIMultiDict
from yarl import URL

from api.gateway_client import CONNECT_TIMEOUT_S, CONNECTION_ERRORS, IDLE_TIMEOUT_S, client
from api.relay.errors import RelayError, error_for_state
from console.errors import InvalidRequest, NotFound
from console.server.ttl_cache import TtlCache
from console.sessions.runtime.gateway_keys import relay_key
from console.sessions.selectors import Route
from console.sessions.services import route_get
from tinkerscript.processes.tracing import trace_headers
from tinkerscript.wire.sessions import SessionState

# of a session that serves already: the reconciler was woken to find its address
ADDRESS_INTERVAL_S = 0.05
NOT_REACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """How long a request waits, and how often it is sent.

    ``ready_s`` is for its runtime, which is looked for each ``poll_s``. A look is a row by its key;
    what wakes those who follow the session's record could save half a ``poll_s``, but may be lost.
    ``answer_s`` bounds the whole answer, ``quiet_s`` each pause in it. ``resends`` is how many
    runtimes a request may die with, each of which is waited for anew: more would feed one that this
    very request kills. None: it is sent as often as the first wait allows.
    """

    ready_s: float
    poll_s: float
    answer_s: float | None = None
    quiet_s: float = IDLE_TIMEOUT_S
    resends: int | None = None


# a gateway holds a begin for up to 20 s before its 503
REST = Policy(ready_s=20.0, poll_s=0.25, answer_s=30.0)
# the client's own limits are 45 s and 60 s
TINKER = Policy(ready_s=30.0, poll_s=0.1, answer_s=40.0)
POLICIES = {
    "call": Policy(ready_s=120.0, poll_s=0.25, resends=3),
    "rest": REST,
    "rest stream": Policy(REST.ready_s, REST.poll_s, quiet_s=30.0),
    "tinker": TINKER,
    "retrieve_future": Policy(20.0, TINKER.poll_s, TINKER.answer_s),
    "asample": Policy(5.0, TINKER.poll_s, TINKER.answer_s),
}


@dataclass(frozen=True)
class GatewayRequest:
    """What is sent. ``url_path`` is the gateway's, with the query, as it is sent. ``prepare`` comes
    before each try.
    """

    method: str
    url_path: str
    headers: Mapping[str, str]
    body: bytes
    by_relay_key: bool = True  # otherwise an episode's key is among the headers
    prepare: Callable[[Route], Awaitable[None]] | None = None


class NotReady(Exception):
    """The wait was too short. ``fault`` is that of the last try, if there was one."""

    def __init__(self, route: Route, fault: Exception | None) -> None:
        super().__init__(f"{route.session_id} is {route.state}")
        self.route, self.fault = route, fault


def _look_up(session_id: str) -> Route:
    try:
        return route_get(session_id=session_id)
    except NotFound:
        raise RelayError(410, "session_ended", "The session is gone. Start a new one.") from None
    except InvalidRequest as refusal:  # it is suspended and could not go on
        raise RelayError(409, "conflict", refusal.message) from None


# the address of each session's gateway, and the state of the session
routes: TtlCache[str, Route] = TtlCache(database_sync_to_async(_look_up))


async def route_served(session_id: str) -> Route:
    """The route of a session that serves calls, or may yet. Raises RelayError."""
    route = await routes.get(session_id)
    if error := error_for_state(route):
        raise error
    return route


async def forward(
    session: Callable[[], Awaitable[Route]],
    request: GatewayRequest,
    policy: Policy,
    deliver: Callable[[aiohttp.ClientResponse], Awaitable[T]],
) -> T:
    """What ``deliver`` makes of the gateway's answer.

    ``session`` returns the route as it is now, or raises the refusal of a session that serves no
    more. ``deliver`` reads the answer, and closes it; CONNECTION_ERRORS that it raises have the
    request sent again. Raises NotReady.
    """
    deadline, losses = time.monotonic() + policy.ready_s, 0
    while True:
        fault: Exception | None = None
        route = await session()
        is_ready = route.state is SessionState.READY
        if is_ready and route.address:
            try:
                if request.prepare is not None:
                    await request.prepare(route)
                return await deliver(await send(route, request, policy))
            except NOT_REACHED as error:
                # nothing of ours listens there: its row shows the reason or the new address soon
                fault = error
            except CONNECTION_ERRORS as error:
                fault, losses = error, losses + 1
                logger.warning(
                    "%s did not answer: %r",
                    route.address,
                    error,
                    extra={"session_id": route.session_id},
                )
                if policy.resends is not None:
                    deadline = time.monotonic() + policy.ready_s
            routes.drop(route.session_id)
        if time.monotonic() >= deadline or (policy.resends is not None and losses > policy.resends):
            raise NotReady(route, fault)
        await asyncio.sleep(ADDRESS_INTERVAL_S if is_ready and not route.address else policy.poll_s)


async def send(route: Route, request: GatewayRequest, policy: Policy) -> aiohttp.ClientResponse:
    """One try: the head of the answer, its body to be read. Raises CONNECTION_ERRORS."""
    headers = CIMultiDict(request.headers)
    headers.update(trace_headers())
    if request.by_relay_key:
        headers["X-Relay-Key"] = relay_key(
            session_id=route.session_id, lease_sha256=route.lease_sha256
        )
    return await client().request(
        request.method,
        URL(f"http://{route.address}{request.url_path}", encoded=True),
        headers=headers,
        data=request.body or None,
        timeout=aiohttp.ClientTimeout(
            total=policy.answer_s, sock_connect=CONNECT_TIMEOUT_S, sock_read=policy.quiet_s
        ),
        allow_redirects=False,
    )
