"""Brings files by presigned URL to this disk: in parallel, resumable, each verified by SHA-256."""

import errno
import hashlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

import httpx

from tinkerscript.connection.http_client import HttpOptions, http_client_for, proxy_of, unreachable
from tinkerscript.connection.retries import backoff_s, is_transient_status
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import ClientClosed, DiskFull, DownloadCorrupt, DownloadFailed, WaitTimeout
from tinkerscript.wire.checkpoints import DownloadFile

THREADS = 4
CHUNK_BYTES = 1 << 20
READ_TIMEOUT_S = 30.0
MAX_TRIES_WITHOUT_PROGRESS = 8  # in a row, per file, with capped exponential back-off: about 30 s
# of files that the server itself passes on, and not a store of its own address
OWN_PATH = "/store/"
MAX_HASH_TRIES = 2  # a wrong hash once may be a damaged partial file; twice is the store's


class _Refused(Exception):
    """The store refused this try in a way that another try may change."""


class Fetch:
    """One download. ``refresh`` returns fresh URLs by file path; ``deadline`` is of
    time.monotonic().

    Stops early, keeping what has arrived, when ``session`` is closed or any file fails.
    """

    def __init__(
        self,
        session: SessionApi,
        *,
        refresh: Callable[[], dict[str, str]],
        deadline: float,
        progress: bool,
    ) -> None:
        self._session, self._http = session, session.http_options
        self._refresh = refresh
        self._deadline = deadline
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._urls: dict[str, str] = {}
        self._sizes: dict[str, int] = {}  # bytes on disk, by file path
        self._line = _ProgressLine(progress)

    def run(self, files: Sequence[tuple[DownloadFile, Path]]) -> None:
        """Bring every file to its path. Raises DownloadFailed, DownloadCorrupt, DiskFull,
        WaitTimeout, ClientClosed.
        """
        if not files:
            return
        self._urls = {file.path: file.url for file, _ in files}
        total = sum(file.size_bytes for file, _ in files)
        client = http_client_for(files[0][0].url, self._http)
        with client as http, ThreadPoolExecutor(THREADS, "tinkerscript-download") as pool:
            futures = [pool.submit(self._fetch_verified, http, file, path) for file, path in files]
            try:
                self._watch(futures, total)
            finally:
                self._stop.set()  # also on Ctrl-C: the workers end at their next chunk
                for future in futures:
                    future.cancel()
                self._line.end()

    def _watch(self, futures: "list[Future[None]]", total: int) -> None:
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            self._line.show(sum(self._sizes.values()), total)

    def _fetch_verified(self, http: httpx.Client, file: DownloadFile, path: Path) -> None:
        for _ in range(MAX_HASH_TRIES):
            self._fetch(http, file, path)
            if sha256_of(path) == file.sha256:
                return
            path.unlink()
        raise DownloadCorrupt(
            f"{file.path} arrived with another SHA-256 than in its manifest, {MAX_HASH_TRIES} "
            "times."
        )

    def _fetch(self, http: httpx.Client, file: DownloadFile, path: Path) -> None:
        """Bring all bytes of one file, resuming after every interruption."""
        path.touch()
        if path.stat().st_size > file.size_bytes:
            path.unlink()
            path.touch()
        tries = 0
        while (have := path.stat().st_size) < file.size_bytes:
            self._check_still_wanted(file)
            try:
                self._receive(http, file, path, have)
                problem: Exception | None = None
            except (httpx.RequestError, _Refused) as failure:
                problem = failure
            tries = 0 if path.stat().st_size > have else tries + 1
            if tries >= MAX_TRIES_WITHOUT_PROGRESS:
                raise _not_arriving(file.path, self._urls[file.path], problem, self._http)
            if problem is not None:
                self._stop.wait(min(backoff_s(tries), max(0.0, self._deadline - time.monotonic())))
        self._sizes[file.path] = file.size_bytes

    def _receive(self, http: httpx.Client, file: DownloadFile, path: Path, have: int) -> None:
        url = self._urls[file.path]
        headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
        with http.stream("GET", url, headers=headers, timeout=READ_TIMEOUT_S) as response:
            if response.status_code == 403:
                self._renew(file.path, url)
                raise _Refused("403: the URL has expired")
            if response.status_code not in {200, 206}:
                refused = _Refused(f"it returned {response.status_code}")
                if not is_transient_status(response.status_code):
                    raise _not_arriving(file.path, url, refused, self._http)
                raise refused
            content_range = response.headers.get("content-range", "")
            if response.status_code == 206 and not content_range.startswith(f"bytes {have}-"):
                raise _Refused("the store returned another range")
            # A store that does not know ranges returns 200 with the whole file: then it starts from
            # nothing.
            self._append(
                file,
                path,
                have if response.status_code == 206 else 0,
                response.iter_bytes(CHUNK_BYTES),
            )

    def _append(self, file: DownloadFile, path: Path, have: int, chunks: Iterator[bytes]) -> None:
        try:
            with path.open("r+b") as out:
                out.truncate(have)
                out.seek(have)
                for chunk in chunks:
                    self._check_still_wanted(file)
                    # Never more than announced: room on the disk was checked for that much.
                    out.write(chunk[: file.size_bytes - have])
                    have = min(file.size_bytes, have + len(chunk))
                    self._sizes[file.path] = have
        except OSError as failure:
            if failure.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise DiskFull(
                    f"The disk filled up while {file.path} was written.",
                    hint="Free space and download again: what has arrived is kept and the rest "
                    "resumes.",
                ) from failure
            raise

    def _renew(self, path: str, expired_url: str) -> None:
        """Fresh URLs for all files, once for all threads that find theirs expired."""
        with self._lock:
            if self._urls[path] == expired_url:
                self._urls.update(self._refresh())

    def _check_still_wanted(self, file: DownloadFile) -> None:
        if self._session.closed:
            raise ClientClosed("The client was closed during the download.")
        if self._stop.is_set():
            raise DownloadFailed("Another file failed.")
        if time.monotonic() >= self._deadline:
            raise WaitTimeout(
                f"The download reached its time limit at {file.path}.",
                hint=DownloadFailed.default_hint,
            )


def _not_arriving(
    path: str, url: str, problem: Exception | None, options: HttpOptions
) -> DownloadFailed:
    """The error of a file that does not come: it names the address, and who is to change what."""
    address = httpx.URL(url)
    origin = str(address.copy_with(raw_path=b"/")).rstrip("/")
    if not isinstance(problem, httpx.TransportError):
        return DownloadFailed(
            f"{path} does not arrive from {origin}: {problem or 'the responses are empty'}."
        )
    setting = (
        "TINKERSCRIPT_PUBLIC_URL" if address.path.startswith(OWN_PATH) else "S3_PUBLIC_ENDPOINT_URL"
    )
    told = unreachable(
        origin,
        problem,
        proxy=proxy_of(origin, options),
        hint=f"The server gives {origin} as the address of its files. If it runs and this machine "
        "does not reach that "
        f"address, whoever runs the server sets {setting} to one that clients reach, and starts it "
        "again.",
    )
    return DownloadFailed(
        f"{path} does not arrive. {told.message}", hint=f"{told.hint} What has arrived is kept."
    )


class _ProgressLine:
    """One line on stderr that rewrites itself; silent when stderr is no terminal."""

    def __init__(self, wanted: bool) -> None:
        self._on = wanted and sys.stderr.isatty()

    def show(self, have: int, total: int) -> None:
        if self._on:
            sys.stderr.write(
                f"\rdownloading {have / 1e6:.1f} / {total / 1e6:.1f} MB  "
                f"{100 * have // max(1, total)}% "
            )
            sys.stderr.flush()

    def end(self) -> None:
        if self._on:
            sys.stderr.write("\n")
            sys.stderr.flush()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
