"""The HTTP client towards gateways: one pool of connections per event loop, each verified before it
is used."""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from tinkerscript.processes.port_owner import StrangersPort, peer_verify

CONNECT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 600.0

# Errors of a gateway that was not reached or went away: worth another try, elsewhere or later.
CONNECTION_ERRORS = (aiohttp.ClientError, TimeoutError)

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


class KnownPeers(aiohttp.TCPConnector):
    """Of a runtime that was killed the port may be another user's by now: that is a
    ClientConnectorError too."""

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        made = await super()._create_connection(req, traces, timeout)
        try:
            if made.transport is None:
                raise StrangersPort("the other end has closed the connection")
            peer_verify(made.transport.get_extra_info("socket"))
        except OSError as error:
            made.close()
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return made


def client() -> aiohttp.ClientSession:
    """The client of the running loop. Bytes pass through as they are: nothing is decompressed, no
    cookie kept.
    """
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        session = _sessions[loop] = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=KnownPeers(limit=0),  # every open completion is a connection
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding", "Content-Type"],
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=IDLE_TIMEOUT_S
            ),
        )
    return session


async def client_close() -> None:
    """Close the running loop's connections. For tests; a server's go with its process."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()
