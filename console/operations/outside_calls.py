"""Calls of models that stand elsewhere, for the playground.

The console's policy lets a browser reach this server alone, so the server makes the call: under the
rules for the addresses of webhooks, within a deadline, with a bound on what it reads. Nothing of it
is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import aiohttp
from pydantic_core import from_json

from console.errors import InvalidRequest, RateLimited
from console.server.tally import Tally
from console.webhooks.addresses import (
    NOT_REACHABLE,
    AddressRefused,
    PublicResolver,
    public_client,
    url_problem,
)

TIMEOUT_S = 120.0
MAX_ANSWER_BYTES = 4 << 20
# of this web process: each may hold MAX_ANSWER_BYTES of memory
AT_ONCE, AT_ONCE_PER_PROJECT = 32, 8
calls = Tally()  # under way, by project


class Answered(NamedTuple):
    """The status of the endpoint's response, and its JSON."""

    status: int
    body: dict[str, Any]


async def outside_chat(
    *,
    project_id: str,
    base_url: str,
    api_key: str,
    body: dict[str, Any],
    resolver: PublicResolver | None = None,
) -> Answered:
    """One chat completion of the endpoint. Raises InvalidRequest, RateLimited."""
    url = f"{base_url.rstrip('/')}/chat/completions"
    if problem := url_problem(url):
        raise _refused(problem, NOT_REACHABLE)
    with _place(project_id):
        try:
            status, read = await _post(
                url, api_key, body | {"stream": False}, resolver or PublicResolver()
            )
        except TimeoutError:
            raise _refused(
                f"it did not answer within {TIMEOUT_S:.0f} s", "Ask for a shorter answer."
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(cause := getattr(error, "os_error", None), AddressRefused):
                raise _refused(str(cause), NOT_REACHABLE) from None
            raise _refused(
                f"it cannot be reached: {type(error).__name__}", "Check the address."
            ) from None
        return Answered(status, _object_in(read))


@contextmanager
def _place(project_id: str) -> Iterator[None]:
    """One call from its beginning to its end. Raises RateLimited when there are too many."""
    of_project, of_all = calls.count(project_id, 1)
    try:
        if of_project > AT_ONCE_PER_PROJECT or of_all > AT_ONCE:
            whose = "this project" if of_project > AT_ONCE_PER_PROJECT else "this server"
            raise RateLimited(
                f"As many calls of other endpoints as {whose} may have are under way.",
                hint="Try again once one of them has ended.",
                details={"retry_after_s": 5},
            )
        yield
    finally:
        calls.count(project_id, -1)


async def _post(
    url: str, api_key: str, body: dict[str, Any], resolver: PublicResolver
) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with (
        public_client(resolver, timeout_s=TIMEOUT_S) as client,
        client.post(url, json=body, headers=headers, allow_redirects=False) as response,
    ):
        read = b""
        async for chunk in response.content.iter_chunked(1 << 16):
            read += chunk
            if len(read) > MAX_ANSWER_BYTES:
                break
        return response.status, read


def _object_in(read: bytes) -> dict[str, Any]:
    """Raises InvalidRequest for what is no JSON object, is too long, or could not be written again
    (too deep, half a surrogate pair).
    """
    try:
        found = from_json(read) if len(read) <= MAX_ANSWER_BYTES else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _refused("what it returned is no chat completion", "The base URL mostly ends in /v1.")
    return found


def _refused(problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest.of_field("base_url", problem, hint=hint, message=f"base_url: {problem}.")
