"""The Tinker wire at a runtime: what the relay passes on, under the relay key, with its bodies as
they came.

POST /api/v1/forward_backward optim_step save_weights save_weights_for_sampler save_weights_external load_weights
POST /api/v1/asample retrieve_future retrieve_futures cancel_future
POST /tinker/models /tinker/samplers    the control plane tells of a model or a sampler: its bookkeeping is over there
POST /tinker/refusals                   it tells of an operation that it refused: its number is used up
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_runtime.gateway.http import check_relay_key, read_body
from gpu_runtime.gateway.tinker.checkpoints.snapshots import snapshot_use
from gpu_runtime.gateway.tinker.checkpoints.store import CheckpointStore
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.ledger import Ledger
from gpu_runtime.gateway.tinker.model_queue import MISSING
from gpu_runtime.gateway.tinker.requests import (
    M,
    Named,
    Retrieve,
    RetrieveFinished,
    Sample,
    body_parse,
)
from gpu_runtime.gateway.tinker.results import Result
from gpu_runtime.gateway.tinker.samples.sampling import Busy, Gone, Promise, Sampled, Samples
from gpu_runtime.health.volume import folder_publish
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.model_table import CREATE
from gpu_runtime.refusals import BadRequest
from tinkerscript.wire.tinker.ids import client_of, training_head
from tinkerscript.wire.tinker.messages import (
    ModelCreate,
    ModelSource,
    RefusedOperation,
    SamplerCreate,
)

POLL_S = 25.0  # a client gives up after 45 s
METADATA_BYTES = 64 << 10  # a client has room for 50 MiB of results at once, of up to 2000 samples
JSON_OPERATIONS = (
    "optim_step", "save_weights", "save_weights_for_sampler", "save_weights_external", "load_weights",
)  # fmt: skip


class TinkerRoutes:
    """The routes of one session's runtime."""

    def __init__(
        self,
        ledger: Ledger,
        samples: Samples,
        samplers: "Samplers",
        *,
        session_id: str,
        relay_key: str,
        poll_s: float = POLL_S,
    ) -> None:
        self._ledger, self._samples, self._samplers = ledger, samples, samplers
        self._session_id, self._relay_key, self._poll_s = session_id, relay_key, poll_s

    def routes(self) -> list[Route]:
        """The routes, for the app. Each asks for the relay key before it reads the body."""
        operations = {f"/api/v1/{kind}": partial(self.operation, kind) for kind in JSON_OPERATIONS}
        handlers: dict[str, Callable[[bytes], Awaitable[Response]]] = operations | {
            "/api/v1/forward_backward": self.forward_backward,
            "/api/v1/asample": self.asample,
            "/api/v1/retrieve_future": self.retrieve_future,
            "/api/v1/retrieve_futures": self.retrieve_futures,
            "/api/v1/cancel_future": self.cancel_future,
            "/tinker/models": self.model_create,
            "/tinker/samplers": self.sampler_create,
            "/tinker/refusals": self.refusal,
        }
        return [
            Route(path, partial(self._answered, handler), methods=["POST"])
            for path, handler in handlers.items()
        ]

    async def _answered(
        self, handler: Callable[[bytes], Awaitable[Response]], request: Request
    ) -> Response:
        check_relay_key(request, self._relay_key)
        return await handler(await read_body(request))

    async def model_create(self, body: bytes) -> Response:
        """``POST /tinker/models``: the model's first operation, once however often it is told."""
        wanted = ModelCreate.model_validate_json(body)
        # A presigned URL differs each time that it is told: the first body stands.
        taken = await self._ledger.submit_create(wanted.model_id, body, session_id=self._session_id)
        return JSONResponse({"request_id": taken.request_id})

    async def sampler_create(self, body: bytes) -> Response:
        """``POST /tinker/samplers``."""
        await self._samplers.create(SamplerCreate.model_validate_json(body))
        return JSONResponse({})

    async def refusal(self, body: bytes) -> Response:
        """``POST /tinker/refusals``: of a body that never came here there is a number, and why it
        was refused.
        """
        refused = RefusedOperation.model_validate_json(body)
        return await self._taken(
            refused.model_id, refused.seq_id, MISSING, refused.message.encode()
        )

    async def forward_backward(self, body: bytes) -> Response:
        """``POST /api/v1/forward_backward``, in protobuf. What of it cannot be read uses its number
        up.
        """
        head = training_head(body)
        if head is None or head[1] <= CREATE:
            raise BadRequest(
                "the body is no ForwardBackwardRequest in protobuf with model_id and seq_id"
            )
        return await self._taken(*head, "forward_backward", body)

    async def operation(self, kind: str, body: bytes) -> Response:
        """An operation in JSON: its two ids are read here, the rest when its turn comes."""
        try:
            sent = json.loads(body)
            model_id, seq_id = sent["model_id"], sent["seq_id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise BadRequest(f"{kind} is a JSON object with model_id and seq_id") from None
        if not isinstance(model_id, str) or type(seq_id) is not int or not CREATE < seq_id < 2**31:
            raise BadRequest("model_id is a string and seq_id a number from 1 on")
        if kind == "load_weights" and sent.get("weights_access_token") is not None:
            # refused later; not journaled
            body = json.dumps(sent | {"weights_access_token": "left out"}).encode()
        compared = body
        if kind == "save_weights_for_sampler" and sent.get("path") is None:
            # A client that sends it again counts its samplers up: the number that came first
            # stands.
            compared = json.dumps(sent | {"sampling_session_seq_id": None}, sort_keys=True).encode()
        return await self._taken(model_id, seq_id, kind, body, compared)

    async def asample(self, body: bytes) -> Response:
        """``POST /api/v1/asample``. A mistake in it comes back through the future, as every user's
        mistake does.
        """
        sha256 = hashlib.sha256(body).hexdigest()
        try:
            promise = self._samples.submit(
                await asyncio.to_thread(body_parse, Sample, body), sha256
            )
        except Busy:
            return JSONResponse(
                {"detail": "too many samples are under way"}, 429, {"retry-after": "1"}
            )
        except UserMistake as mistake:
            promise = self._samples.refuse(str(mistake), sha256)
        return JSONResponse(
            {"request_id": promise.request_id, "sample_sequence_ids": promise.sequence_ids}
        )

    async def retrieve_future(self, body: bytes) -> Response:
        """``POST /api/v1/retrieve_future``: held until the result is there, for less than the
        client waits.
        """
        wanted = _asked(Retrieve, body)
        request_id = wanted.request_id
        future = await self._samples.wait(request_id, self._poll_s)
        if future is None:
            future = await self._ledger.wait(request_id, self._poll_s)
        if future is None:
            return JSONResponse(
                {"detail": f"the promise {request_id} is not, or no longer, kept"}, 410
            )
        if future.result is None:
            return JSONResponse({"queue_state": "active", "queue_state_reason": future.reason}, 408)
        return _answer(future.result, wanted)

    async def retrieve_futures(self, body: bytes) -> Response:
        """``POST /api/v1/retrieve_futures``: which samples of a client are done, held until one
        more is.
        """
        wanted = _asked(RetrieveFinished, body)
        timeout_s = self._poll_s if wanted.timeout is None else min(wanted.timeout, self._poll_s)
        try:
            done, cursor = await self._samples.finished(
                wanted.target, wanted.prev_cursor, timeout_s
            )
        except Gone:
            return JSONResponse(
                {"detail": "the runtime was started again: these samples are no longer made"}, 410
            )
        return JSONResponse(
            {"completions": [_completion(promise) for promise in done], "cursor": cursor}
        )

    async def cancel_future(self, body: bytes) -> Response:
        """``POST /api/v1/cancel_future``: of samples; an operation of a model cannot be taken
        back.
        """
        self._samples.cancel(_asked(Named, body).request_id or "")
        return JSONResponse({})

    async def _taken(
        self, model_id: str, seq_id: int, kind: str, body: bytes, compared: bytes | None = None
    ) -> Response:
        taken = await self._ledger.submit(
            model_id, seq_id, kind, body, session_id=self._session_id, compared=compared
        )
        return JSONResponse({"request_id": taken.request_id, "model_id": model_id})


class Samplers:
    """What each sampling session of this runtime samples from; in the journal, so that a restart
    keeps it.

    ``state_export`` makes what an engine loads of a saved training state.
    """

    def __init__(
        self,
        journal: Journal,
        store: CheckpointStore,
        state_export: Callable[[Path, Path], Awaitable[None]],
    ) -> None:
        self._journal, self._table = journal, journal.models
        self._store, self._state_export = store, state_export
        self._exporting = asyncio.Lock()
        self.clients = self._table.sampler_clients()  # the Tinker sessions that have samplers here

    def client_over(self, client: str) -> None:
        """A client is finished; the ledger removes what the journal has of it."""
        self.clients.discard(client)

    async def create(self, wanted: SamplerCreate) -> None:
        """Take it up; once, however often it is told."""
        described: dict[str, Any] = {"base": True, "exact_seeds": wanted.exact_seeds}
        if wanted.checkpoint_id is not None:
            described = wanted.model_dump(mode="json")
        self.clients.add(client_of(wanted.sampling_session_id))
        await self._journal.run(self._table.sampler_put, wanted.sampling_session_id, described)

    async def put(self, sampler_id: str, described: dict[str, object], moves: bool) -> None:
        """A sampler of a model's present weights; all that ``moves`` of one model follow the last
        of them.
        """
        if moves:
            following = f"inflight:{described['model_id']}"
            await self._journal.run(self._table.sampler_move, following, described)
            described = {"inflight": following}
        self.clients.add(client_of(sampler_id))
        await self._journal.run(self._table.sampler_put, sampler_id, described)

    async def find(self, sampler_id: str) -> Sampled:
        """What it samples. Raises UserMistake."""
        described = await self._journal.run(self._table.sampler, sampler_id)
        if described is not None and "inflight" in described:
            described = await self._journal.run(self._table.sampler, described["inflight"])
        if described is None:
            raise UserMistake(f"there is no sampling session {sampler_id}")
        folder = await self._folder(sampler_id, described)
        return Sampled(folder, exact_seeds=described.get("exact_seeds", False))

    async def _folder(self, sampler_id: str, described: dict[str, Any]) -> Path | None:
        if described.get("base"):
            return None
        if "folder" in described:
            folder = Path(described["folder"])
            if not await asyncio.to_thread(snapshot_use, folder):
                raise UserMistake(
                    f"the weights of {sampler_id} are no longer kept: of a client's unnamed "
                    "snapshots those that were sampled last are, as many as a part of the volume "
                    "holds; save_weights_for_sampler with a name keeps one"
                )
            return folder
        source = ModelSource(
            path=described["model_path"],
            checkpoint_id=described["checkpoint_id"],
            files=described["files"],
            optimizer=False,
        )
        folder = await self._store.fetch(source)
        if not (folder / "model.json").is_file():
            return folder
        exported = folder.with_name(f"{folder.name}-sampler")
        async with self._exporting:
            if not exported.exists():
                with folder_publish(exported) as staging:
                    await self._state_export(folder, staging)
        return exported


def _asked(kind: type[M], body: bytes) -> M:
    """Raises BadRequest."""
    try:
        return body_parse(kind, body)
    except UserMistake as mistake:
        raise BadRequest(str(mistake)) from None


def _answer(result: Result, wanted: Retrieve) -> Response:
    """The result; of a large one its size alone, where the client first makes room and then asks
    again.
    """
    if wanted.allow_metadata_only and len(result.body) > METADATA_BYTES:
        return JSONResponse(
            {"status": "complete_metadata", "response_payload_size": len(result.body)}
        )
    kind = "application/x-protobuf" if result.kind == "proto" else "application/json"
    return Response(result.body, media_type=kind)


def _completion(promise: Promise) -> dict[str, object]:
    assert promise.result is not None, "it is finished"
    if promise.result.kind != "proto":
        return {"state": "failed", "request_id": promise.request_id}
    size = len(promise.result.body)
    return {
        "state": "finished",
        "request_id": promise.request_id,
        "response_payload_uncompressed_size": size,
    }
