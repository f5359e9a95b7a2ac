"""The real client saves for in-flight samplers through an answer that is lost, and asks for results
by their size.
"""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpu_runtime.gateway.tinker import routes
from support import tinker_client_server
from support.tinker_exit import ended_well
from support.tinker_fakes import FakeModelTrainer, FakeSamplerEngine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


async def test_a_lost_answer_to_a_save_is_asked_for_again_and_the_first_sampler_follows_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "METADATA_BYTES", 10)
    engine, saves = FakeSamplerEngine(), []
    monkeypatch.setattr(tinker_client_server, "ThreadedTrainer", lambda trainer: trainer)
    monkeypatch.setattr(tinker_client_server, "FakeSamplerEngine", lambda: engine)
    relay = tinker_client_server.as_the_relay

    def losing(app: Starlette) -> ASGIApp:
        inner = relay(app)

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            async def lost(message: Message) -> None:
                await send(
                    message | ({"status": 503} if message["type"] == "http.response.start" else {})
                )

            if scope.get("path", "").endswith("save_weights_for_sampler"):
                saves.append(scope["path"])
            is_first = len(saves) == 1 and scope["path"] == saves[0]
            await inner(scope, receive, lost if is_first else send)

        return served

    monkeypatch.setattr(tinker_client_server, "as_the_relay", losing)
    async with tinker_client_server.client_server_open(FakeModelTrainer(), tmp_path) as url:  # type: ignore[arg-type]
        client = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name("client_inflight.py")), url, cwd="/",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, errors = await asyncio.wait_for(client.communicate(), 300)
    assert ended_well(client.returncode or 0, errors), errors.decode()[-2000:]
    assert json.loads(said) == {"lengths": [5, 5], "metrics": {"grad_norm": 1.0}}
    assert len(saves) == 3 and engine.orders[0].folder != engine.orders[1].folder
