"""The HTTP client towards gateways: one pool of connections per event loop."""

import asyncio
from weakref import WeakKeyDictionary

import aiohttp

CONNECT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 600.0

# Errors of a gateway that was not reached or went away: worth another try, elsewhere or later.
CONNECTION_ERRORS = (aiohttp.ClientError, TimeoutError)

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


def client() -> aiohttp.ClientSession:
    """The client of the running loop. Bytes pass through as they are: nothing is decompressed, no cookie kept."""
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        session = _sessions[loop] = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=0),  # every open completion is a connection
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding", "Content-Type"],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=IDLE_TIMEOUT_S),
        )
    return session


async def client_close() -> None:
    """Close the running loop's connections. For tests; a server's go with its process."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()
