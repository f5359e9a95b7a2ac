"""What each operation of a model does: it trains, saves, or makes a sampler."""

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from gpu_runtime.errors import CheckpointDeleted, DiskFull, StoreUnavailable
from gpu_runtime.gateway.tinker.checkpoints.encryption import folder_encrypt, recipients_read
from gpu_runtime.gateway.tinker.checkpoints.snapshots import (
    leftovers_remove,
    snapshot_use,
    snapshots_bound,
    snapshots_folder,
)
from gpu_runtime.gateway.tinker.checkpoints.store import CheckpointStore
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.requests import (
    LoadWeights,
    OptimStep,
    SaveForSampler,
    SaveWeights,
    body_parse,
)
from gpu_runtime.gateway.tinker.results import MODEL_LOST, Measured, Result
from gpu_runtime.gateway.tinker.training_calls import TrainingCalls
from gpu_runtime.health.volume import folder_written
from gpu_runtime.journal.model_table import Operation
from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput, LoraConfig, ModelTrainer
from tinkerscript.wire.tinker.ids import ModelId, SamplerId, client_of
from tinkerscript.wire.tinker.messages import (
    LoraOptions,
    ModelCreate,
    ModelSource,
    NamedCheckpointOpen,
    Segment,
)

# A state is saved once so much was done since the last: what a restart has to do again is bounded
# by these.
SAVE_AFTER_BYTES, SAVE_AFTER_OPERATIONS, SAVE_AFTER_S = 64 << 20, 256, 60.0
# of the time at most: a state of all weights is large, and takes longer to write than a step
SAVING_SHARE = 0.1
# a try to read a state from a store that is away takes a minute, in which no model is served
RETRY_S = 60.0
MIN_TTL_S, MAX_TTL_S = 3600, 10 * 366 * 86_400


class ModelWork:
    """Does operations with a trainer. ``again`` is set for those that were done before a restart:
    only the model must change.

    ``folder`` is on the session's volume; ``session_id`` is ours. ``advance`` is called as the
    files of a state grow.
    """

    def __init__(
        self,
        trainer: ModelTrainer,
        store: CheckpointStore,
        folder: Path,
        *,
        session_id: str,
        sampler_put: Callable[[str, dict[str, object], bool], Awaitable[None]],
        advance: Callable[[], None],
    ) -> None:
        self._trainer, self._store, self._folder = trainer, store, folder
        self._calls = TrainingCalls(trainer)
        self._session_id, self._sampler_put, self._advance = session_id, sampler_put, advance
        self._loras: dict[str, LoraOptions] = {}
        self._exact_seeds: set[str] = set()  # models whose client asked for seeds as they are
        # operations, bytes, and when the first of them was
        self._since: dict[str, tuple[int, int, float]] = {}
        self._saving_s: dict[str, float] = {}  # how long the last state took
        # models whose state is due, whatever was done since the last
        self._save_next: set[str] = set()
        self._mistaken: dict[str, str] = {}  # models that could not be made, and why
        # whose state could not be read: why, and when
        self._unmade: dict[str, tuple[Operation, str, float]] = {}

    async def begin(self) -> None:
        """Remove what a runtime that was killed has left half made; what has to be done again is
        made anew.
        """
        await asyncio.to_thread(leftovers_remove, self._folder)

    async def resume(self, model_id: str, seq_id: int, creation: Operation) -> None:
        """Make the model and load the state that was saved after operation ``seq_id``."""
        made = ModelCreate.model_validate_json(creation.body)
        self._keep(made)
        await self._trainer.create_model(model_id, _lora(made.lora))
        folder = self._state_folder(model_id, seq_id)
        await self._trainer.model(model_id).load_state(folder, with_gradient=True)

    async def do(self, operation: Operation, *, again: bool) -> Result | Awaitable[Result]:
        """A result, or work that can go on beside later operations and returns it. Raises
        UserMistake, InvalidTrainingInput, and what loses the trainer.
        """
        if self._mistaken.get(operation.model_id) == MODEL_LOST:
            return Result.mistake(MODEL_LOST, "server")
        await self._made(operation)
        match operation.kind:
            case "create_model":
                return await self._create(operation)
            case "forward_backward":
                return await self._calls.alone(operation, again=again)
            case "optim_step":
                return await self._optim_step(operation)
            case "load_weights":
                return await self._load(operation)
            case "save_weights" | "save_weights_for_sampler" | "save_weights_external" if again:
                return Result.of({})
            case "save_weights":
                return await self._save(operation, "weights")
            case "save_weights_external":
                return await self._save(operation, "external_weights")
            case "save_weights_for_sampler":
                return await self._save_for_sampler(operation)
        raise UserMistake(f"{operation.kind} is no operation of a model")

    async def do_joined(self, operations: Sequence[Operation]) -> list[Result] | None:
        """As ``do`` each of operations of several models, that were not done before, in one pass;
        None, and nothing is done, where each has to be by itself. Raises what loses the trainer.
        """
        if any(
            each.model_id in known
            for each in operations
            for known in (self._mistaken, self._unmade)
        ):
            return None
        return await self._calls.joined(operations)

    def _keep(self, made: ModelCreate) -> None:
        self._loras[made.model_id] = made.lora
        if made.exact_seeds:
            self._exact_seeds.add(made.model_id)

    async def save_when_due(self, model_id: str, seq_id: int, *, size_bytes: int) -> bool:
        """Save a state on this volume when enough would have to be done again after a restart."""
        number, total_bytes, since = self._since.get(model_id, (0, 0, time.monotonic()))
        number, total_bytes = number + 1, total_bytes + size_bytes
        passed_s = time.monotonic() - since
        is_due = passed_s >= self._saving_s.get(model_id, 0.0) / SAVING_SHARE and (
            number >= SAVE_AFTER_OPERATIONS
            or total_bytes >= SAVE_AFTER_BYTES
            or (passed_s >= SAVE_AFTER_S and number > 1)
        )
        self._since[model_id] = (number, total_bytes, since)
        return (is_due or model_id in self._save_next) and await self.save(model_id, seq_id)

    async def save(self, model_id: str, seq_id: int) -> bool:
        """The model's state as of operation ``seq_id``, a gradient that waits included, on this
        volume; False for a model that was never made.
        """
        if model_id not in self._loras:
            return False
        target, began = self._state_folder(model_id, seq_id), time.monotonic()
        await self._write(target, self._trainer.model(model_id).save_state)
        self._saving_s[model_id] = time.monotonic() - began
        self._since.pop(model_id, None)
        self._save_next.discard(model_id)
        return True

    async def keep_only(self, model_id: str, seq_id: int) -> None:
        """Remove the other states of the model, once the journal says that a restart takes that of
        ``seq_id``.
        """
        kept = self._state_folder(model_id, seq_id)
        for state in kept.parent.glob("state-*"):
            if state != kept:
                await asyncio.to_thread(shutil.rmtree, state, ignore_errors=True)

    async def forget(self, model_id: str) -> None:
        """Free what the model has in memory and on the volume. Raises what loses the trainer."""
        if self._loras.pop(model_id, None) is not None:
            await self._trainer.unload(model_id)
        for known in (self._since, self._saving_s, self._mistaken, self._unmade):
            known.pop(model_id, None)
        self._save_next.discard(model_id)
        self._exact_seeds.discard(model_id)
        for folder in (
            self._state_folder(model_id, 0).parent,
            snapshots_folder(self._folder, _short(client_of(model_id)), ""),
        ):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _made(self, operation: Operation) -> None:
        """Have the model that ``operation`` needs, unless it is the one that makes it. Raises what
        it failed by.
        """
        model_id = operation.model_id
        if operation.kind == "create_model":
            return
        if why := self._mistaken.get(model_id):
            raise UserMistake(f"the model {model_id} was not made: {why}")
        if (unmade := self._unmade.get(model_id)) is not None:
            creation, said, tried_at = unmade
            if time.monotonic() < tried_at + RETRY_S:
                raise StoreUnavailable(said)
            await self._create(creation)

    async def _create(self, operation: Operation) -> Result:
        wanted = ModelCreate.model_validate_json(operation.body)
        if wanted.made_before:  # and the journal of this volume has no such model
            self._mistaken[wanted.model_id] = MODEL_LOST
            return Result.mistake(MODEL_LOST, "server")
        try:
            await self._trainer.create_model(wanted.model_id, _lora(wanted.lora))
            if wanted.source is not None:
                await self._begin_from(wanted.model_id, wanted.source)
        except (UserMistake, InvalidTrainingInput) as mistake:
            self._mistaken[wanted.model_id] = str(mistake)
            raise
        except CheckpointDeleted as deleted:
            self._mistaken[wanted.model_id] = str(deleted)
            raise
        except StoreUnavailable as away:
            self._unmade[wanted.model_id] = operation, str(away), time.monotonic()
            raise
        self._unmade.pop(wanted.model_id, None)
        self._keep(wanted)
        if wanted.source is None:
            return Result.of({"model_id": wanted.model_id, "type": "create_model"})
        return Result.of(
            {"path": wanted.source.path, "model_id": wanted.model_id, "type": "load_weights"}
        )

    async def _begin_from(self, model_id: str, source: ModelSource) -> None:
        """Load a saved state; a model that it does not fit is not kept."""
        try:
            folder = await self._store.fetch(source)
            model = self._trainer.model(model_id)
            await model.load_state(folder, with_optimizer=source.optimizer)
        except (UserMistake, InvalidTrainingInput, StoreUnavailable):
            await self._trainer.unload(model_id)
            raise

    async def _load(self, operation: Operation) -> Result:
        """Another state's weights in the place of the model's, and its optimizer or a fresh one; a
        gradient goes.
        """
        wanted = body_parse(LoadWeights, operation.body)
        if wanted.weights_access_token is not None:
            raise UserMistake(
                "weights_access_token is not taken by load_state, as no credential is kept in a "
                "runtime: make a model"
                " from the state (create_training_client_from_state)"
            )
        source = await self._store.find(operation.model_id, wanted.path, optimizer=wanted.optimizer)
        folder = await self._store.fetch(source)
        model = self._trainer.model(operation.model_id)
        await model.load_state(folder, with_optimizer=wanted.optimizer)
        # so that no restart looks for it again: it may be gone by then
        self._save_next.add(operation.model_id)
        return Result.of(
            {"path": wanted.path, "model_id": operation.model_id, "type": "load_weights"}
        )

    async def _optim_step(self, operation: Operation) -> Result:
        wanted = body_parse(OptimStep, operation.body)
        if wanted.adam_params is None:
            kind = (wanted.optimizer_params or {}).get("type", "none")
            raise UserMistake(
                f"the optimizer {kind!r} is not there: send adam_params, AdamW is what this server "
                "has"
            )
        params = AdamParams(**wanted.adam_params.model_dump(exclude={"type"}))
        metrics = await self._trainer.model(operation.model_id).optim_step(params)
        measured = Measured("optim_step", metrics | {"learning_rate": params.learning_rate})
        return replace(Result.of({"metrics": metrics}), measured=measured)

    async def _save(self, operation: Operation, segment: Segment) -> Awaitable[Result]:
        wanted = body_parse(SaveWeights, operation.body)
        recipients = recipients_read(wanted.age_encryption_recipients or [])
        if recipients and segment != "external_weights":
            raise UserMistake(
                "age_encryption_recipients go with save_weights_external: a state is read here "
                "again"
            )
        opening = self._named(wanted, segment, wanted.overwrite)
        folder = self._folder / f"saving-{_short(operation.request_id)}"
        model = self._trainer.model(operation.model_id)
        write = model.export_model if segment == "external_weights" else model.save_state

        async def written(staging: Path) -> None:
            await write(staging)
            if recipients:
                await asyncio.to_thread(folder_encrypt, staging, recipients)

        await self._write(folder, written)
        return self._stored(opening, folder, operation, kind=operation.kind)

    async def _save_for_sampler(self, operation: Operation) -> Result | Awaitable[Result]:
        wanted = body_parse(SaveForSampler, operation.body)
        if (wanted.path is None) == (wanted.sampling_session_seq_id is None):
            raise UserMistake("give either path, a name to keep it by, or sampling_session_seq_id")
        if wanted.path is not None:
            opening = self._named(wanted, "sampler_weights", overwrite=False)
            folder = self._folder / f"saving-{_short(operation.request_id)}"
            await self._export(operation.model_id, folder)
            return self._stored(opening, folder, operation, kind=operation.kind)
        is_whole, moves = self._loras[operation.model_id].rank == 0, wanted.kind == "inflight"
        kind = "whole" if is_whole else "adapters"
        if moves:
            kind = f"inflight-{_short(operation.model_id)}"
        client = _short(client_of(operation.model_id))
        folder = snapshots_folder(self._folder, client, kind) / _short(operation.request_id)
        await self._export(operation.model_id, folder)
        model = ModelId.parse(operation.model_id)
        assert model is not None, "the control plane makes models of this form alone"
        sampler_id = str(
            SamplerId(model.tinker_session, wanted.sampling_session_seq_id or 0, self._session_id)
        )
        await self._sampler_put(
            sampler_id,
            {
                "folder": str(folder),
                "model_id": operation.model_id,
                "exact_seeds": operation.model_id in self._exact_seeds,
            },
            moves,
        )
        await asyncio.to_thread(snapshot_use, folder)
        await asyncio.to_thread(snapshots_bound, folder.parent)
        return Result.of({"path": None, "sampling_session_id": sampler_id, "type": operation.kind})

    async def _export(self, model_id: str, folder: Path) -> None:
        await self._write(folder, self._trainer.model(model_id).publish)

    def _named(
        self, wanted: SaveWeights | SaveForSampler, segment: Segment, overwrite: bool
    ) -> NamedCheckpointOpen:
        ttl = wanted.ttl_seconds
        if ttl is not None and not MIN_TTL_S <= ttl <= MAX_TTL_S:
            raise UserMistake(
                f"ttl_seconds is {ttl}; it must be from {MIN_TTL_S} (an hour) to {MAX_TTL_S} (ten "
                "years)"
            )
        try:
            return NamedCheckpointOpen(
                model_id=wanted.model_id,
                segment=segment,
                name=wanted.path or "",
                seq_id=wanted.seq_id,
                ttl_seconds=ttl,
                overwrite=overwrite,
                user_metadata=wanted.user_metadata or {},
                lora=self._loras[wanted.model_id],
            )
        except ValidationError:
            raise UserMistake(
                f"path is {wanted.path!r}; a name has letters, digits, '.', '_' and '-', at most "
                "128, and no '/'"
            ) from None

    async def _stored(
        self, opening: NamedCheckpointOpen, folder: Path, operation: Operation, *, kind: str
    ) -> Result:
        try:
            size_bytes = await self._store.store(opening, folder, operation.seq_id)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        path = f"tinker://{opening.model_id}/{opening.segment}/{opening.name}"
        return Result.of({"path": path, "type": kind, "size_bytes": size_bytes})

    async def _write(self, folder: Path, write: Callable[[Path], Awaitable[None]]) -> None:
        """A folder of files, whose growth is progress: what is large is longer in writing than a
        step may stand still.

        Raises UserMistake where the volume is full.
        """
        try:
            async with folder_written(folder, self._advance) as staging:
                await write(staging)
        except DiskFull as full:
            raise UserMistake(f"the volume of this session is full: {full}") from full

    def _state_folder(self, model_id: str, seq_id: int) -> Path:
        return self._folder / "models" / _short(model_id) / f"state-{seq_id}"


def _lora(options: LoraOptions) -> LoraConfig | None:
    return LoraConfig(**options.model_dump()) if options.rank else None


def _short(name: str) -> str:
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()[:20]
