"""Calls of models that stand elsewhere, for the playground.

The console's policy lets a browser reach this server alone, so the server makes the call: under the
rules for the addresses of webhooks, within a deadline, with a bound on what it reads. Nothing of it
is kept.
"""

import json
import threading
from typing import Any, NamedTuple

import aiohttp

from console.errors import InvalidRequest, RateLimited
from console.webhooks.addresses import AddressRefused, PublicResolver, url_problem

TIMEOUT_S = 120.0
MAX_ANSWER_BYTES = 4 << 20
AT_ONCE = 32  # each may hold MAX_ANSWER_BYTES of memory
PLACES = threading.BoundedSemaphore(AT_ONCE)


class Answered(NamedTuple):
    """The status of the endpoint's response, and its JSON."""

    status: int
    body: dict[str, Any]


async def outside_chat(
    *, base_url: str, api_key: str, body: dict[str, Any], resolver: PublicResolver | None = None
) -> Answered:
    """One chat completion of the endpoint. Raises InvalidRequest, RateLimited."""
    url = f"{base_url.rstrip('/')}/chat/completions"
    if problem := url_problem(url):
        raise _refused(problem, "Give an https URL whose host can be reached from the Internet.")
    if not PLACES.acquire(blocking=False):
        raise RateLimited(
            f"{AT_ONCE} calls of other endpoints run on this server.",
            hint="Try again once one of them has ended.",
            details={"retry_after_s": 5},
        )
    try:
        status, read = await _post(
            url, api_key, body | {"stream": False}, resolver or PublicResolver()
        )
    except TimeoutError:
        raise _refused(
            f"it did not answer within {TIMEOUT_S:.0f} s", "Ask for a shorter answer."
        ) from None
    except AddressRefused as error:
        raise _refused(
            str(error), "Give an https URL whose host can be reached from the Internet."
        ) from None
    except (aiohttp.ClientError, OSError) as error:
        raise _refused(
            f"it cannot be reached: {type(error).__name__}", "Check the address."
        ) from None
    finally:
        PLACES.release()
    return Answered(status, _object_in(read))


async def _post(
    url: str, api_key: str, body: dict[str, Any], resolver: PublicResolver
) -> tuple[int, bytes]:
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with (
        aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        ) as client,
        client.post(url, json=body, headers=headers, allow_redirects=False) as response,
    ):
        read = b""
        async for chunk in response.content.iter_chunked(1 << 16):
            read += chunk
            if len(read) > MAX_ANSWER_BYTES:
                break
        return response.status, read


def _object_in(read: bytes) -> dict[str, Any]:
    """Raises InvalidRequest for what is no JSON object, or too long for one."""
    try:
        found = json.loads(read) if len(read) <= MAX_ANSWER_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _refused("what it returned is no chat completion", "The base URL mostly ends in /v1.")
    return found


def _refused(problem: str, hint: str) -> InvalidRequest:
    fields = [{"field": "base_url", "problem": problem}]
    return InvalidRequest(f"base_url: {problem}.", hint=hint, details={"fields": fields})
