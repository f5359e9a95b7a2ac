"""Compressed training data: unpacked once, for a runtime that sees what it sees of every client;
bombs cost nothing.
"""

import json
import tracemalloc
from typing import Any

import pytest
import zstandard

from console.asgi import application
from console.sessions.models import Session
from support.asgi_calls import Call, FakeGateway
from support.tinker_client import Client
from support.tinker_harness import training

pytestmark = pytest.mark.django_db(transaction=True)
GOOD = zstandard.ZstdCompressor().compress(training(1) * 40)
ZEROS = bytes(17 << 20)


def streamed(data: bytes) -> bytes:
    """A frame that does not say how large its content is, as of a writer that does not know it
    yet.
    """
    packing = zstandard.ZstdCompressor().compressobj()
    return packing.compress(data) + packing.flush()


def promising(size: int, data: bytes) -> bytes:
    """A frame whose head says ``size``, in eight bytes after mark and descriptor. RFC 8878,
    3.1.1.1.
    """
    return zstandard.FRAME_HEADER + bytes([0b11100000]) + size.to_bytes(8, "little") + data


async def send(
    client: Client, body: bytes, path: str = "forward_backward", encoding: str = "zstd"
) -> tuple[int, Any]:
    given = {"x_api_key": client.secret, "content_encoding": encoding}
    status, _, answer = await Call(
        application, "POST", f"/api/v1/{path}", body=body, **given
    ).answer()
    return status, json.loads(answer)


async def test_a_runtime_gets_what_was_packed(alices: Client, gateway: FakeGateway) -> None:
    assert (await alices.post("client/config", {"sdk_version": "0.38.0"}))["proto_compress_fwdbwd"]
    made = await alices.model(await alices.session())
    body = training(1, [7] * 5000, model_id=made["model_id"])
    packed = zstandard.ZstdCompressor().compress(body)
    assert len(packed) * 10 < len(body)
    await Session.objects.filter(id=made["request_id"].partition("|")[0]).aupdate(
        state="ready", address=gateway.address
    )
    assert await send(alices, packed) == (200, {"path": "/api/v1/forward_backward"})
    request, received = gateway.requests[-1]
    assert received == body and "Content-Encoding" not in request.headers


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (zstandard.ZstdCompressor().compress(ZEROS), 413, "unpacks to more than 16777216"),
        (promising(2**60, b"\1\0\0"), 413, "unpacks to more than 16777216"),
        (promising(16 << 20, b"\1\0\0"), 400, "cut off"),
        (streamed(ZEROS), 400, "does not say"),
        (GOOD[:-9], 400, "cut off"),
        (GOOD + GOOD, 400, "not one frame"),
        (training(1), 400, "begin with a frame"),
        (b"", 400, "begin with a frame"),
    ],
)  # fmt: skip
async def test_what_cannot_be_unpacked_is_refused_before_memory_is_spent(
    alices: Client, body: bytes, status: int, said: str
) -> None:
    tracemalloc.start()
    try:
        found, answer = await send(alices, body)
        assert tracemalloc.get_traced_memory()[1] < (8 if status == 413 else 20) << 20
    finally:
        tracemalloc.stop()
    assert found == status and said in answer["detail"]


async def test_other_compressions_and_other_calls_are_refused_as_they_come(alices: Client) -> None:
    for path, encoding in (
        ("forward_backward", "gzip"),
        ("optim_step", "zstd"),
        ("create_session", "zstd"),
    ):
        status, answer = await send(alices, GOOD, path, encoding)
        assert status == 415 and "forward_backward reads zstd" in answer["detail"]


async def test_an_encoding_is_not_hidden_by_a_header_after_it(alices: Client) -> None:
    for first, last in (("gzip", "identity"), ("identity", "gzip"), ("zstd", "zstd")):
        twice = {"content_encoding": first, "Content_Encoding": last, "x_api_key": alices.secret}
        status, _, answer = await Call(
            application, "POST", "/api/v1/forward_backward", body=GOOD, **twice
        ).answer()
        assert status == 415 and b"reads zstd" in answer
