"""Requests to the control plane under the lease: one attempt, or attempts until a response."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import httpx
from pydantic import BaseModel, ValidationError

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.errors import (
    ControlPlaneLost,
    ControlPlaneRefused,
    LeaseLost,
    ServerDiffers,
    StoreFull,
    StoreUnavailable,
)
from gpu_runtime.processes.checked_peers import peers_checked_async, tls_context
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail
from tinkerscript.wire.version import VERSION

log = logging.getLogger(__name__)

# of one attempt, response included; a commit looks at every object of a checkpoint
REQUEST_TIMEOUT_S = 60.0
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 3.0


class ControlPlaneAway(Exception):
    """One attempt got no usable response; try again. ``error`` is set when the control plane itself
    sent one.
    """

    def __init__(self, message: str, error: ErrorDetail | None = None) -> None:
        super().__init__(message)
        self.error = error

    @property
    def store_full(self) -> StoreFull | None:
        """The error to raise if the store's full disk is the reason, else None."""
        if self.error is None or self.error.code != ErrorCode.DISK_FULL:
            return None
        return StoreFull(self.error.message, self.error.hint)


class LeaseClient:
    """Speaks for the session. Used on one event loop only. Once a lease is lost it sends nothing
    more.

    ``on_store_full`` is called at every response with code disk_full: the requests go on.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        on_lease_lost: Callable[[LeaseLost], None],
        on_store_full: Callable[[StoreFull], None],
    ) -> None:
        self._lease_lost: LeaseLost | None = None
        self._on_lease_lost, self._on_store_full = on_lease_lost, on_store_full
        self._client = httpx.AsyncClient(
            base_url=config.server_url,
            headers={"Authorization": f"Bearer {config.lease}", "Content-Type": "application/json"},
            timeout=None,  # every attempt stands under one deadline as a whole: see send
            verify=tls_context(),
            event_hooks={"request": [peers_checked_async]},
            # the control plane is named exactly; no proxy of the machine stands before it
            trust_env=False,
        )

    async def send(
        self, path: str, body: bytes, response_type: type[BaseModel] | None, timeout_s: float
    ) -> Any:
        """One attempt. Raises ControlPlaneAway, LeaseLost, ControlPlaneRefused, ServerDiffers."""
        if self._lease_lost is not None:
            raise self._lease_lost
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.post(path, content=body)
            if response.is_success:
                return (
                    None
                    if response_type is None
                    else response_type.model_validate_json(response.content)
                )
        except ValidationError as error:
            assert response_type is not None, "nothing else was read"
            raise _unreadable(response, response_type, error) from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise ControlPlaneAway(f"{type(error).__name__}: {error}") from error
        fault = _fault(response)
        if isinstance(fault, LeaseLost):
            self._lease_lost = fault
            self._on_lease_lost(fault)
        elif isinstance(fault, ControlPlaneAway) and (full := fault.store_full):
            self._on_store_full(full)
        raise fault

    async def retry(
        self, path: str, body: bytes, response_type: type[BaseModel] | None, deadline_s: float
    ) -> Any:
        """Attempts until one gets a response. Raises LeaseLost, ControlPlaneRefused, ServerDiffers.

        After ``deadline_s``: StoreUnavailable (StoreFull) if that was the control plane's last
        error, else ControlPlaneLost.
        """
        deadline, wait_s = time.monotonic() + deadline_s, RETRY_FIRST_S
        while True:
            try:
                return await self.send(path, body, response_type, REQUEST_TIMEOUT_S)
            except ControlPlaneAway as away:
                if time.monotonic() + wait_s > deadline:
                    raise _lasting(
                        away, f"{path} got no response within {deadline_s:g} s: {away}"
                    ) from away
                log.warning("%s: %s; again in %.1f s", path, away, wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)

    async def close(self) -> None:
        await self._client.aclose()


def _lasting(away: ControlPlaneAway, words: str) -> StoreUnavailable | ControlPlaneLost:
    if full := away.store_full:
        return full
    is_store = away.error is not None and away.error.code == ErrorCode.STORAGE_UNAVAILABLE
    return StoreUnavailable(words) if is_store else ControlPlaneLost(words)


def _unreadable(
    response: httpx.Response, expected: type[BaseModel], error: ValidationError
) -> Exception:
    """A response with a field of ``expected`` is our server's, of another version: no later one
    will be read either.
    """
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or not body.keys() & expected.model_fields.keys():
        # another process has its port while it is down
        return ControlPlaneAway(f"{type(error).__name__}: {error}")
    problems = [
        f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors(include_input=False)
    ]
    said = "; ".join(problems)
    return ServerDiffers(
        f"this runtime is of version {VERSION} and cannot read what the server says: {said}"
    )


def _fault(response: httpx.Response) -> Exception:
    try:
        error = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        # Not a body of our server: another process listens on its port while it is down.
        return ControlPlaneAway(f"status {response.status_code} with no error body")
    if error.code in (ErrorCode.STALE_LEASE, ErrorCode.UNAUTHENTICATED):
        return LeaseLost(error.message)
    if response.status_code >= 500 or error.code.retryable:
        return ControlPlaneAway(f"{error.code}: {error.message}", error)
    return ControlPlaneRefused(f"{error.code}: {error.message}")
