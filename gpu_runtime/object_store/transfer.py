"""Bytes to and from presigned URLs: a few at a time, in threads, retried while the store is away.

Threads and not the event loop, because that loop serves the gateway and hashing or copying
gigabytes on it would stall every open completion.
"""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import urllib3

from gpu_runtime.errors import StoreUnavailable
from gpu_runtime.processes.checked_peers import peers_checked, tls_context
from tinkerscript.processes.port_owner import pool_checked
from tinkerscript.wire.runtime import StoredFile

log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

PARALLEL = 4
CHUNK_BYTES = 1 << 20
TIMEOUT = httpx.Timeout(30.0, connect=5.0)  # of one read or write
ATTEMPT_S = 900.0  # of one part or file as a whole, however steadily it trickles
RETRY_FIRST_S, RETRY_LAST_S = 0.2, 10.0
BAD_HASHES = 3  # downloads of one file that may differ from its hash before we stop believing in it


class UrlRefused(Exception):
    """The store returned 4xx: the URL expired, or the upload behind it is gone. Ask for another
    URL.
    """


class _Failed(Exception):
    """One attempt failed in a way that another may not."""


@dataclass(frozen=True)
class Transfer:
    """``patience_s`` bounds how long one part or file may fail without a success in between."""

    client: httpx.Client
    downloads: urllib3.PoolManager  # of whole files: half of the CPU that the client takes for them
    stop: threading.Event
    patience_s: float

    async def run(self, jobs: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
        """All results in order; the first fault ends the other jobs, as does cancelling. Raises
        what a job raised.
        """
        with ThreadPoolExecutor(max_workers=PARALLEL, thread_name_prefix="transfer") as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                return await asyncio.gather(*map(asyncio.wrap_future, futures))
            finally:
                # Jobs look at `stop` first and between chunks: the wait is short, and no thread has
                # a closed client.
                self.stop.set()
                await asyncio.to_thread(wait, futures)

    def part_put(self, url: str, path: Path, offset: int, size_bytes: int) -> str:
        """PUT one part of a file; its ETag. Raises UrlRefused, StoreUnavailable."""

        def attempt() -> str:
            # With an explicit length the body is streamed unchunked, which S3 insists on.
            body = self._read(path, offset, size_bytes)
            response = self.client.put(
                url, content=body, headers={"Content-Length": str(size_bytes)}
            )
            _check(response.status_code)
            etag = response.headers.get("ETag")
            if not etag:
                raise _Failed("the store's response has no ETag")
            return etag

        return self._attempts(f"writing {path.name}", attempt)

    def file_get(self, stored: StoredFile, dest: Path) -> None:
        """GET one file to ``dest``, going on from what an earlier attempt left there, and verify
        its hash.

        Raises UrlRefused, StoreUnavailable.
        """
        bad_hashes = 0

        def attempt() -> None:
            nonlocal bad_hashes
            if not dest.exists() or dest.stat().st_size != stored.size_bytes:
                self._download(stored, dest)
            if file_sha256(dest) != stored.sha256:
                dest.unlink()
                bad_hashes += 1
                if bad_hashes == BAD_HASHES:
                    raise StoreUnavailable(
                        f"{stored.path} was read {BAD_HASHES} times with a wrong SHA-256"
                    )
                raise _Failed("what was read has a wrong SHA-256")

        dest.parent.mkdir(parents=True, exist_ok=True)
        self._attempts(f"reading {stored.path}", attempt)

    def range_get(self, url: str, offset: int, size_bytes: int) -> bytes:
        """Some bytes of an object. Raises UrlRefused, StoreUnavailable."""

        def attempt() -> bytes:
            wanted = {"Range": f"bytes={offset}-{offset + size_bytes - 1}"}
            response = self.client.get(url, headers=wanted)
            _check(response.status_code)
            if response.status_code != 206 or len(response.content) != size_bytes:
                raise _Failed(f"{len(response.content)} bytes came for {size_bytes}")
            return response.content

        return self._attempts("reading a part of an object", attempt)

    def _download(self, stored: StoredFile, dest: Path) -> None:
        have_bytes = dest.stat().st_size if dest.exists() else 0
        if have_bytes > stored.size_bytes:
            dest.unlink()
            have_bytes = 0
        headers = {"Range": f"bytes={have_bytes}-"} if have_bytes else {}
        end_at = time.monotonic() + ATTEMPT_S
        opened = self.downloads.request(
            "GET", stored.url, headers=headers, redirect=False, preload_content=False
        )
        with opened as response:
            _check(response.status)
            resumed = response.status == 206
            with dest.open("ab" if resumed else "wb") as out:
                # read1 returns what has come. read would wait for all of a chunk, past the deadline
                # if it trickles.
                while chunk := response.read1(CHUNK_BYTES, decode_content=False):
                    self._look_up(end_at)
                    out.write(chunk)
        if dest.stat().st_size != stored.size_bytes:
            raise _Failed(f"{dest.stat().st_size} of {stored.size_bytes} bytes came")

    def _read(self, path: Path, offset: int, size_bytes: int) -> Iterator[bytes]:
        end_at, left_bytes = time.monotonic() + ATTEMPT_S, size_bytes
        with path.open("rb") as stream:
            stream.seek(offset)
            while left_bytes:
                self._look_up(end_at)
                chunk = stream.read(min(CHUNK_BYTES, left_bytes))
                if not chunk:
                    raise StoreUnavailable(f"{path} became shorter while it was uploaded")
                left_bytes -= len(chunk)
                yield chunk

    def _look_up(self, end_at: float) -> None:
        if self.stop.is_set():
            raise StoreUnavailable("the transfer was given up")
        if time.monotonic() > end_at:
            raise _Failed(f"not done after {ATTEMPT_S:g} s")

    def _attempts(self, what: str, attempt: Callable[[], ResultT]) -> ResultT:
        give_up_at, wait_s = time.monotonic() + self.patience_s, RETRY_FIRST_S
        while True:
            if self.stop.is_set():
                raise StoreUnavailable("the transfer was given up")
            try:
                return attempt()
            except (httpx.HTTPError, urllib3.exceptions.HTTPError, _Failed) as error:
                if time.monotonic() + wait_s > give_up_at:
                    raise StoreUnavailable(
                        f"{what} failed for {self.patience_s:g} s: {error!r}"
                    ) from error
                log.warning("%s: %r; again in %.1f s", what, error, wait_s)
            self.stop.wait(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)


@asynccontextmanager
async def transfer_open(patience_s: float) -> AsyncIterator[Transfer]:
    """A transfer for one ``run``."""
    limits = urllib3.Timeout(connect=TIMEOUT.connect, read=TIMEOUT.read)
    with (
        httpx.Client(
            timeout=TIMEOUT,
            trust_env=False,
            verify=tls_context(),
            event_hooks={"request": [peers_checked]},
        ) as client,
        urllib3.PoolManager(
            maxsize=PARALLEL, retries=False, timeout=limits, ssl_context=tls_context()
        ) as downloads,
    ):
        pools = downloads.pool_classes_by_scheme
        downloads.pool_classes_by_scheme = pools | {"http": pool_checked(pools["http"])}
        yield Transfer(client, downloads, threading.Event(), patience_s)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check(status: int) -> None:
    if 200 <= status < 300:
        return
    if 400 <= status < 500 and status not in (408, 429):
        raise UrlRefused(f"the store returned {status}")
    raise _Failed(f"the store returned {status}")
