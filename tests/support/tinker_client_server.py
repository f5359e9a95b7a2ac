"""A runtime's Tinker routes over the real trainer, served to the real client.

Of the control plane it has only what such a client asks for, and ``FakeSamplerEngine`` for an
engine; tests/e2e runs the whole.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gpu_runtime.events import Events
from gpu_runtime.gateway.app import app_of, serve
from gpu_runtime.gateway.tinker.ledger import Ledger
from gpu_runtime.gateway.tinker.routes import Samplers, TinkerRoutes
from gpu_runtime.gateway.tinker.samples.sampling import Samples
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.journal.journal import Journal
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.remote_model import RemoteModel
from support.tinker_fakes import FakeSamplerEngine, FolderStore
from tinkerscript.wire.tinker.messages import LoraOptions, ModelCreate

SESSION, TINKER_SESSION = "ses_0123", "tnk_ab"


class ThreadedTrainer:
    """model_interfaces.ModelTrainer over a trainer in this process: each call in a thread, one at a
    time.
    """

    def __init__(self, trainer: BaseWithModels) -> None:
        self._trainer, self._lock = trainer, asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            async with self._lock:
                return await asyncio.to_thread(getattr(self._trainer, name), *args, **options)

        return call

    def model(self, model_id: str) -> "ThreadedModel":
        """The model of that id, which need not be there yet."""
        return ThreadedModel(self, model_id)


class ThreadedModel(RemoteModel):
    """One of a ThreadedTrainer's."""

    def __init__(self, trainer: ThreadedTrainer, model_id: str) -> None:
        self._trainer, self._id = trainer, model_id

    async def call(self, command: str, *arguments: object, deadline_s: float) -> Any:
        return await getattr(self._trainer, command)(self._id, *arguments)

    async def forward(self, *given: Any) -> Any:
        """The loss and its log-probabilities."""
        return await self.call("forward", *given, deadline_s=math.inf)


@asynccontextmanager
async def client_server_open(trainer: BaseWithModels, folder: Path) -> AsyncIterator[str]:
    """The base URL of a server over ``trainer``; states that a client saves lie in
    ``folder``/store.
    """
    journal, store = (
        Journal(folder / "journal.sqlite3"),
        FolderStore(folder / "store"),
    )
    threaded, events = ThreadedTrainer(trainer), Events()
    samplers = Samplers(journal, store, threaded.export_state)
    work = ModelWork(
        threaded,
        store,
        folder / "models",
        session_id=SESSION,
        sampler_put=samplers.put,
        advance=lambda: None,
    )
    ledger = Ledger(journal, work, events)
    samples = Samples(
        FakeSamplerEngine(),
        samplers.find,
        session_id=SESSION,
        events=events,
        on_fault=lambda fault: None,
    )
    routes = TinkerRoutes(ledger, samples, samplers, session_id=SESSION, relay_key="relay")
    worker = asyncio.create_task(ledger.run())
    app = app_of([*_control_plane(ledger), *routes.routes()])
    try:
        async with serve(as_the_relay(app)) as address:
            yield f"http://{address}"
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        journal.close()


def as_the_relay(app: Starlette) -> Any:
    """The app behind the key of the relay, which a client does not have."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"x-relay-key", b"relay")]}
        await app(scope, receive, send)

    return served


def _control_plane(ledger: Ledger) -> list[Route]:
    models: dict[str, LoraOptions] = {}

    async def create_model(request: Request) -> Response:
        sent = json.loads(await request.body())
        model_id, lora = (
            f"{TINKER_SESSION}:train:{sent['model_seq_id']}",
            LoraOptions(**sent["lora_config"]),
        )
        models[model_id] = lora
        body = (
            ModelCreate(model_id=model_id, base_model=sent["base_model"], lora=lora)
            .model_dump_json()
            .encode()
        )
        taken = await ledger.submit_create(model_id, body, session_id=SESSION)
        return JSONResponse({"request_id": taken.request_id, "model_id": model_id})

    async def get_info(request: Request) -> Response:
        model_id = json.loads(await request.body())["model_id"]
        rank = models[model_id].rank
        return JSONResponse(
            {
                "type": "get_info", "model_id": model_id, "is_lora": rank > 0, "lora_rank": rank or None,
                "model_name": "tiny", "model_data": {"arch": None, "model_name": "tiny", "tokenizer_id": None},
            }
        )  # fmt: skip

    def always(path: str, answer: dict[str, Any]) -> Route:
        async def say(request: Request) -> Response:
            return JSONResponse(answer)

        return Route(f"/api/v1/{path}", say, methods=["POST"])

    session = {"type": "create_session", "session_id": TINKER_SESSION}
    return [
        always("client/config", {}),
        always("client/dynamic_config", {}),
        always(
            "create_session",
            session | dict.fromkeys(("info_message", "warning_message", "error_message")),
        ),
        always("session_heartbeat", {"type": "session_heartbeat"}),
        always("sessions/{session_id}/finish", {}),
        Route("/api/v1/create_model", create_model, methods=["POST"]),
        Route("/api/v1/get_info", get_info, methods=["POST"]),
    ]
