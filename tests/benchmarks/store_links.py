"""What a link costs: objects read and written through the server's own origin, beside the store's
own address.

    .venv/bin/python tests/benchmarks/store_links.py    about a minute; --help for sizes and rounds

Conditions: the embedded store, one web process and the client on one machine. Every row is measured
by both ways in turn, in ROUNDS rounds, and has the best round of each: whatever else the machine
does slows a round, and nothing makes one faster. "sdk" writes four files to disk and verifies each
hash; "bytes" reads and drops them. "others" is the time of GET /healthz with nothing to do, and
while four objects are read over and over, by each way.
"""

import argparse
import http.client
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

from serving import ROOT, free_port, quantile, running

MIB = 1 << 20
FILES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--mib", type=int, default=256, help="size of each of the four objects")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    while options.read:
        _read(options.read)
    with tempfile.TemporaryDirectory(prefix="tinkerscript-benchmark-") as folder:
        port = free_port()
        os.environ |= {
            "TINKERSCRIPT_DATA": folder,
            "TINKERSCRIPT_PORT": str(port),
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "sdk"))),
        }
        sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]
        _measure(Path(folder), port, options)


def _measure(folder: Path, port: int, options: argparse.Namespace) -> None:
    import django

    django.setup()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from django.core.management import call_command

    from console.object_store import client, links, seaweedfs

    call_command("migrate", interactive=False, verbosity=0)
    with (folder / "weed.log").open("wb") as log:
        store = seaweedfs.start(folder, log=log.fileno())
    try:
        client.ready_wait(timeout_s=60, stopped=lambda: store.poll() is not None)
        body = secrets.token_bytes(options.mib * MIB)
        (folder / "body").write_bytes(body)
        keys = [f"sessions/ses_{number}/model.safetensors" for number in range(FILES)]
        for key in keys:
            client.upload(folder / "body", key)
        upload_id = client.multipart_open("sessions/ses_9/x")
        ways = {"direct": client.read_url, "link": links.read_link}
        reads = {way: [url(key, expires_s=6 * 3600) for key in keys] for way, url in ways.items()}
        part = body[: min(options.mib, 64) * MIB]
        writes = {
            "direct": client.part_url("sessions/ses_9/x", upload_id, 1, expires_s=3600),
            "link": links.write_link(
                "sessions/ses_9/x", upload_id, 1, expires_s=3600, most_bytes=0
            ),
        }
        command = [sys.executable, "-m", "console.server.uvicorn"]
        with running(command, f"http://127.0.0.1:{port}/healthz", env=dict(os.environ), root=ROOT):
            sha = sha256(body).hexdigest()
            rows: dict[str, Callable[[str], int]] = {
                "bytes, 1 at once": lambda way: _read(reads[way][0]),
                "bytes, 4 at once": lambda way: _read_all(reads[way]),
                "sdk, 4 at once": lambda way: _sdk(reads[way], len(body), sha),
                "write, 1 at once": lambda way: _write(writes[way], part),
            }
            print(f"{'':18}{'direct MB/s':>12}{'link MB/s':>12}{'share':>8}")
            for name, transfer in rows.items():
                best = dict.fromkeys(ways, 0.0)
                for _ in range(options.rounds):
                    for way in ways:
                        began = time.perf_counter()
                        size_bytes = transfer(way)
                        best[way] = max(best[way], size_bytes / (time.perf_counter() - began) / 1e6)
                share = best["link"] / best["direct"]
                print(
                    f"{name:18}{best['direct']:12.0f}{best['link']:12.0f}{share:8.0%}", flush=True
                )
            _others(port, reads)
    finally:
        store.kill()
        store.wait(25)


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)


def _read(url: str) -> int:
    buffer, size_bytes, connection = bytearray(MIB), 0, _connection(url)
    try:
        connection.request("GET", url.partition(urlsplit(url).netloc)[2])
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            while got := response.readinto(buffer):
                size_bytes += got
    finally:
        connection.close()
    return size_bytes


def _read_all(urls: list[str]) -> int:
    with ThreadPoolExecutor(len(urls)) as pool:
        return sum(pool.map(_read, urls))


def _sdk(urls: list[str], size_bytes: int, sha: str) -> int:
    from tinkerscript.connection.http_client import HttpOptions
    from tinkerscript.downloads.folder import folder_fill
    from tinkerscript.wire.checkpoints import DownloadFile

    files = [
        DownloadFile(path=f"{number}.safetensors", size_bytes=size_bytes, sha256=sha, url=url)
        for number, url in enumerate(urls)
    ]
    with tempfile.TemporaryDirectory(prefix="tinkerscript-benchmark-") as folder:
        session = SimpleNamespace(closed=False, http_options=HttpOptions())
        folder_fill(
            session, Path(folder), files, refresh=lambda: files, deadline=time.monotonic() + 600,
            progress=False,
        )  # fmt: skip
    return size_bytes * len(files)


def _write(url: str, body: bytes) -> int:
    connection = _connection(url)
    try:
        connection.request("PUT", url.partition(urlsplit(url).netloc)[2], body=body)
        response = connection.getresponse()
        assert response.status == 200, response.read()
    finally:
        connection.close()
    return len(body)


def _others(port: int, reads: dict[str, list[str]]) -> None:
    times = {"idle": _healthz(port)}
    for way, urls in reads.items():
        # Readers of their own process: this one's threads would hold the requests up that it times.
        readers = [subprocess.Popen([sys.executable, __file__, "--read", url]) for url in urls]
        try:
            time.sleep(1)
            times[f"4 reads, {way}"] = _healthz(port)
        finally:
            for reader in readers:
                reader.kill()
                reader.wait(25)
    for name, found in times.items():
        p50_ms, p99_ms = (quantile(found, share) * 1e3 for share in (0.5, 0.99))
        print(f"others, {name:17} p50 {p50_ms:6.1f} ms   p99 {p99_ms:6.1f} ms")


def _healthz(port: int) -> list[float]:
    connection, times = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    for _ in range(300):
        began = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
        time.sleep(0.005)
    connection.close()
    return times


if __name__ == "__main__":
    main()
