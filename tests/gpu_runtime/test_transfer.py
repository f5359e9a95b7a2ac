"""The transfers against real S3 servers: presigned parts, ranges, refusals."""

import hashlib
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from console.object_store import client as object_store
from gpu_runtime.errors import StoreUnavailable
from gpu_runtime.object_store import transfer as transfer_module
from gpu_runtime.object_store.transfer import UrlRefused, transfer_open
from gpu_runtime.processes.checked_peers import tls_context
from support.real_stores import real_stores
from tinkerscript.wire.runtime import StoredFile

PART_BYTES = 5 << 20  # S3's smallest part but for the last
CONTENT = hashlib.shake_128(b"weights").digest(PART_BYTES + 1000)


@pytest.fixture
def stored(s3, tmp_path):
    """CONTENT as an object, written in two parts through presigned URLs."""
    source, key = tmp_path / "source.bin", "tests/transfer.bin"
    source.write_bytes(CONTENT)
    upload_id = object_store.multipart_open(key)

    async def write():
        urls = [object_store.part_url(key, upload_id, number, expires_s=60) for number in (1, 2)]
        async with transfer_open(30.0) as transfer:
            return await transfer.run(
                [
                    lambda: transfer.part_put(urls[0], source, 0, PART_BYTES),
                    lambda: transfer.part_put(urls[1], source, PART_BYTES, 1000),
                ]
            )

    def complete(etags):
        assert object_store.multipart_complete(key, upload_id, etags)
        url = object_store.read_url(key, expires_s=60)
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        return StoredFile(path="model.bin", size_bytes=len(CONTENT), sha256=sha256, url=url)

    return write, complete


@real_stores
async def test_parts_put_in_parallel_come_back_whole_and_in_order(stored, tmp_path):
    write, complete = stored
    file, dest = complete(await write()), tmp_path / "dest.bin"
    dest.write_bytes(CONTENT[:1234])  # what an interrupted download left
    async with transfer_open(30.0) as transfer:
        await transfer.run([lambda: transfer.file_get(file, dest)])
    assert dest.read_bytes() == CONTENT


@real_stores
async def test_a_url_with_a_wrong_signature_is_refused_at_once(stored, tmp_path):
    write, complete = stored
    file = complete(await write())
    tampered = file.model_copy(update={"url": file.url[:-4] + "0000"})
    async with transfer_open(30.0) as transfer:
        with pytest.raises(UrlRefused, match="403"):
            await transfer.run([lambda: transfer.file_get(tampered, tmp_path / "dest.bin")])


async def test_the_certificates_are_read_once_and_servers_are_still_held_to_them(monkeypatch):
    reads, read = [], ssl.create_default_context
    monkeypatch.setattr(
        ssl,
        "create_default_context",
        lambda *names, **more: reads.append(names) or read(*names, **more),
    )
    tls_context.cache_clear()
    for _ in range(3):
        async with transfer_open(1.0):
            pass
    assert len(reads) == 1
    assert tls_context().verify_mode is ssl.CERT_REQUIRED and tls_context().check_hostname


class Trickle(BaseHTTPRequestHandler):
    """A server that never stops sending, and never gets anywhere."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(PART_BYTES))
        self.end_headers()
        while not self.server.is_over.wait(0.02):
            self.wfile.write(b"a")

    def log_message(self, *what):
        pass


async def test_a_store_that_trickles_is_given_up_at_the_deadline_of_the_whole_file(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(transfer_module, "ATTEMPT_S", 0.5)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    server.is_over = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/model.bin"
    file = StoredFile(path="model.bin", size_bytes=PART_BYTES, sha256="0" * 64, url=url)
    began = time.monotonic()
    try:
        async with transfer_open(1.0) as transfer:
            with pytest.raises(StoreUnavailable, match="not done after 0.5 s"):
                await transfer.run([lambda: transfer.file_get(file, tmp_path / "dest.bin")])
    finally:
        server.is_over.set()
        server.shutdown()
        server.server_close()
    assert time.monotonic() - began < 20
