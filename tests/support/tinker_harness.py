"""A runtime's Tinker routes over a real journal, with fakes for trainer, engine and store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from starlette.applications import Starlette

from gpu_runtime.events import Events
from gpu_runtime.gateway.app import app_of
from gpu_runtime.gateway.tinker import messages
from gpu_runtime.gateway.tinker.dialects import DialectRoutes
from gpu_runtime.gateway.tinker.ledger import Ledger
from gpu_runtime.gateway.tinker.routes import Samplers, TinkerRoutes
from gpu_runtime.gateway.tinker.samples.sampling import Samples
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.journal.journal import Journal
from gpu_runtime.rendering.renderer import Renderer
from support.fakes import FakeEngine
from support.tinker_fakes import FakeModelTrainer, FakeSamplerEngine, FolderStore
from tinkerscript.wire.config import SessionConfig

SESSION, MODEL = "ses_0123", "tnk_ab:train:0"
KEY = {"X-Relay-Key": "relay"}


@dataclass
class Wire:
    """One runtime's life, from its start to its kill."""

    http: httpx.AsyncClient
    trainer: FakeModelTrainer
    engine: FakeSamplerEngine
    store: FolderStore
    journal: Journal
    ledger: Ledger
    samples: Samples
    app: Starlette
    worker: asyncio.Task[None]
    events: Events

    async def post(self, path: str, body: Any) -> httpx.Response:
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return await self.http.post(path, headers=KEY, **content)

    async def promise(self, path: str, body: Any) -> str:
        answer = await self.post(f"/api/v1/{path}", body)
        assert answer.status_code == 200, answer.text
        return answer.json()["request_id"]

    async def result(self, request_id: str) -> httpx.Response:
        return await self.post(
            "/api/v1/retrieve_future", {"request_id": request_id, "allow_metadata_only": True}
        )

    async def do(self, path: str, body: Any) -> Any:
        """Submit and wait: parsed JSON, or the protobuf message."""
        answer = await self.result(await self.promise(path, body))
        assert answer.status_code == 200, answer.text
        if "protobuf" in answer.headers["content-type"]:
            kind = messages.SampleResponse if path == "asample" else messages.ForwardBackwardOutput
            return kind.FromString(answer.content)
        return answer.json()

    async def model(self, model_id: str = MODEL, **lora: Any) -> Any:
        body = {"model_id": model_id, "base_model": "tiny", "lora": {"rank": 8} | lora}
        answer = await self.post("/tinker/models", body)
        return (await self.result(answer.json()["request_id"])).json()


Open = Callable[..., AbstractAsyncContextManager[Wire]]


def opening(tmp_path: Path) -> Open:
    """Opens a runtime on the folder; leaving the block is a kill: nothing is saved."""

    @asynccontextmanager
    async def opened(
        *, gap_s: float = 60.0, poll_s: float = 10.0, words: FakeEngine | None = None, relay_key: str = "relay",
        session_id: str = SESSION, advance: Callable[[], None] = lambda: None, **options: Any,
    ) -> AsyncIterator[Wire]:  # fmt: skip
        journal = Journal(tmp_path / "journal.sqlite3")
        length = words.context_length if words else 256
        trainer, engine = FakeModelTrainer(), FakeSamplerEngine(context_length=length, words=words)
        for name, value in options.items():
            setattr(trainer, name, value)
        store = FolderStore(tmp_path / "store")
        samplers = Samplers(journal, store, trainer.export_state)
        work = ModelWork(
            trainer,
            store,
            tmp_path / "models",
            session_id=session_id,
            sampler_put=samplers.put,
            advance=advance,
        )
        events = Events()
        ledger = Ledger(journal, work, events, gap_s=gap_s)
        samples = Samples(
            engine, samplers.find, session_id=session_id, events=events, on_fault=lambda fault: None
        )
        routes = TinkerRoutes(
            ledger, samples, samplers, session_id=session_id, relay_key=relay_key, poll_s=poll_s
        )
        config = SessionConfig(max_context_length=length, max_tokens=min(512, length))
        dialects = DialectRoutes(
            engine, samplers.find, lambda: renderer_of(words), config, relay_key=relay_key, events=events,
            on_fault=lambda fault: None,
        )  # fmt: skip
        await ledger.restore()
        worker = asyncio.create_task(ledger.run())
        app = app_of([*routes.routes(), *dialects.routes()])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://runtime", timeout=30
        ) as http:
            try:
                yield Wire(
                    http, trainer, engine, store, journal, ledger, samples, app, worker, events
                )
            finally:
                await samples.close()
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)
                journal.close()

    return opened


def renderer_of(words: FakeEngine | None) -> Renderer:
    if words is None:
        raise OSError("the folder has no tokenizer")
    return Renderer(words.tokenizer)


def training(
    seq_id: int, tokens: list[int] | None = None, *, model_id: str = MODEL, **changes: Any
) -> bytes:
    """A forward_backward of one datum."""
    ids = tokens or [3, 4, 5]
    message = messages.ForwardBackwardRequest(
        model_id=model_id, seq_id=seq_id, loss_fn="cross_entropy"
    )
    datum = message.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(ids, "<i4").tobytes()
    tensor = datum.loss_fn_inputs["target_tokens"]
    tensor.dense, tensor.dtype = np.array(ids, "<i8").tobytes(), messages.INT64
    for name, value in changes.items():
        setattr(message, name, value)
    return message.SerializeToString()


def step(seq_id: int, *, model_id: str = MODEL, **adam: float) -> dict[str, Any]:
    """An optim_step."""
    return {
        "model_id": model_id,
        "seq_id": seq_id,
        "type": "optim_step",
        "adam_params": {"learning_rate": 0.1} | adam,
    }
