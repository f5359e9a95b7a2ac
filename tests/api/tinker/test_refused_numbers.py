"""An operation that is refused before its runtime sees it: its number is used up, and nothing after
it waits for it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from aiohttp import web
from asgiref.sync import sync_to_async

from console.asgi import application
from console.sessions.models import Session
from console.sessions.runtime.gateway_keys import relay_key
from support.asgi_calls import Call, FakeGateway
from support.tinker_client import Client
from support.tinker_harness import Wire, opening, step, training

pytestmark = pytest.mark.django_db(transaction=True)
LARGE = b"\0" * (17 << 20)


def promising(size: int, data: bytes) -> bytes:
    """A frame that says ``size`` of its content: not what it has. RFC 8878, 3.1.1.1."""
    packed = zstandard.ZstdCompressor().compress(data)
    head = zstandard.FRAME_HEADER + bytes([0b11100000]) + size.to_bytes(8, "little")
    return head + packed[zstandard.frame_header_size(packed) :]


async def send(client: Client, body: bytes, encoding: str) -> tuple[int, Any]:
    given = {"x_api_key": client.secret} | ({"content_encoding": encoding} if encoding else {})
    status, _, answer = await Call(
        application, "POST", "/api/v1/forward_backward", body=body, **given
    ).answer()
    return status, json.loads(answer)


def passed_on(wire: Wire) -> Any:
    """Handles a gateway's requests by a runtime's routes."""

    async def handle(request: web.Request) -> web.Response:
        headers = {
            name: request.headers[name]
            for name in ("X-Relay-Key", "Content-Type")
            if name in request.headers
        }
        answer = await wire.http.post(request.path, content=await request.read(), headers=headers)
        return web.Response(
            body=answer.content, status=answer.status_code, content_type="application/json"
        )

    return handle


async def test_what_is_too_large_or_cannot_be_unpacked_uses_its_number_up(
    alices: Client, gateway: FakeGateway, tmp_path: Path
) -> None:
    made = await alices.model(await alices.session())
    model, session_id = made["model_id"], made["request_id"].partition("|")[0]
    key = await sync_to_async(relay_key)(session_id=session_id, lease_sha256="")
    await Session.objects.filter(id=session_id).aupdate(state="ready", address=gateway.address)
    async with opening(tmp_path)(relay_key=key, session_id=session_id) as wire:
        gateway.answer = passed_on(wire)
        refused: list[tuple[bytes, str, str]] = [
            (training(1, model_id=model) + LARGE, "", "larger than 16777216"),
            (
                zstandard.ZstdCompressor().compress(training(2, model_id=model) + LARGE),
                "zstd",
                "unpacks to more",
            ),
            (promising(2**60, training(3, model_id=model)), "zstd", "unpacks to more"),
            (promising(16 << 20, training(4, model_id=model)), "zstd", "cut off"),
        ]
        for number, (body, encoding, said) in enumerate(refused, 1):
            status, promise = await send(alices, body, encoding)
            assert status == 200, promise
            assert await send(alices, body, encoding) == (200, promise), "sent again it is the same"
            failed = await alices.post("retrieve_future", {"request_id": promise["request_id"]})
            assert failed["category"] == "user" and said in failed["error"], number
        text = json.dumps(step(5, model_id=model)).encode() + b" " * len(LARGE)
        assert "larger than" in await alices.mistake("optim_step", text)
        last = await alices.post("optim_step", step(6, model_id=model))
        assert (await alices.post("retrieve_future", {"request_id": last["request_id"]}))["metrics"]


async def test_a_model_that_is_anothers_or_a_runtime_that_cannot_gets_the_plain_refusal(
    alices: Client, eves: Client, gateway: FakeGateway
) -> None:
    made = await alices.model(await alices.session())
    session_id = made["request_id"].partition("|")[0]
    await Session.objects.filter(id=session_id).aupdate(state="ready", address=gateway.address)

    async def older(request: web.Request) -> web.Response:
        return web.json_response({}, status=404)

    gateway.answer = older
    body = training(1, model_id=made["model_id"]) + LARGE
    for client in (eves, alices):
        status, answer = await send(client, body, "")
        assert status == 413 and "larger than" in answer["detail"]
    assert (
        len([request for request, _ in gateway.requests if request.path == "/tinker/refusals"]) == 1
    ), "alice's"
