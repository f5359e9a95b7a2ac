"""Requests to the control plane under the lease: one attempt, or attempts until answered."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import httpx
from pydantic import BaseModel, ValidationError

from tinkerscript.wire.errors import ErrorBody, ErrorCode

from .config import RuntimeConfig
from .errors import ControlPlaneLost, ControlPlaneRefused, LeaseLost, StoreUnavailable

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 60.0  # of one attempt, answer included; a commit looks at every object of a checkpoint
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 3.0


class ControlPlaneAway(Exception):
    """No usable answer to one attempt; ask again. ``code`` is the control plane's, if it was it that answered."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class LeaseClient:
    """Speaks for the session. Used on one event loop only. Once a lease is lost it sends nothing more."""

    def __init__(self, config: RuntimeConfig, on_lease_lost: Callable[[LeaseLost], None]) -> None:
        self._lease_lost: LeaseLost | None = None
        self._on_lease_lost = on_lease_lost
        self._client = httpx.AsyncClient(
            base_url=config.server_url,
            headers={"Authorization": f"Bearer {config.lease}", "Content-Type": "application/json"},
            timeout=None,  # every attempt stands under one deadline as a whole: see send
            trust_env=False,  # the control plane is named exactly; no proxy of the machine stands before it
        )

    async def send(self, path: str, body: bytes, answer: type[BaseModel] | None, timeout_s: float) -> Any:
        """One attempt. Raises ControlPlaneAway, LeaseLost, ControlPlaneRefused."""
        if self._lease_lost is not None:
            raise self._lease_lost
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.post(path, content=body)
            if response.is_success:
                return None if answer is None else answer.model_validate_json(response.content)
        except (httpx.HTTPError, TimeoutError, ValidationError) as error:
            raise ControlPlaneAway(f"{type(error).__name__}: {error}") from error
        fault = _fault(response)
        if isinstance(fault, LeaseLost):
            self._lease_lost = fault
            self._on_lease_lost(fault)
        raise fault

    async def retry(self, path: str, body: bytes, answer: type[BaseModel] | None, deadline_s: float) -> Any:
        """Attempts until answered. Raises LeaseLost, ControlPlaneRefused.

        After ``deadline_s``: StoreUnavailable if that is what the control plane kept saying, else ControlPlaneLost.
        """
        deadline, wait_s = time.monotonic() + deadline_s, RETRY_FIRST_S
        while True:
            try:
                return await self.send(path, body, answer, REQUEST_TIMEOUT_S)
            except ControlPlaneAway as away:
                if time.monotonic() + wait_s > deadline:
                    fault = StoreUnavailable if away.code == ErrorCode.STORAGE_UNAVAILABLE else ControlPlaneLost
                    raise fault(f"{path} was not answered within {deadline_s:g} s: {away}") from away
                log.warning("%s: %s; again in %.1f s", path, away, wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)

    async def close(self) -> None:
        await self._client.aclose()


def _fault(response: httpx.Response) -> Exception:
    try:
        error = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        # Not our server's words: something else answers on its port while it is down.
        return ControlPlaneAway(f"status {response.status_code} with no error body")
    if error.code in (ErrorCode.STALE_LEASE, ErrorCode.UNAUTHENTICATED):
        return LeaseLost(error.message)
    if response.status_code >= 500 or error.code.retryable:
        return ControlPlaneAway(f"{error.code}: {error.message}", error.code)
    return ControlPlaneRefused(f"{error.code}: {error.message}")
