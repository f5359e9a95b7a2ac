"""Hand-written stand-ins for the trainer of many models and for the engine that samples from their
adapters.
"""

import copy
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime.errors import CheckpointDeleted, StoreUnavailable
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.interfaces import Delta, SampleOrder, SampleOutcome, SamplingOptions
from gpu_runtime.model_interfaces import (
    AdamParams,
    Datum,
    ForwardResult,
    InvalidTrainingInput,
    LoraConfig,
    LossConfig,
    ModelCall,
)
from support.fakes import FakeEngine, Reach, datum_text, pass_by
from tinkerscript.wire.tinker.messages import ModelSource, NamedCheckpointOpen

VOCABULARY = 512


class FakeModelTrainer:
    """Weights are digests: each step folds into them exactly what was trained, in which order, with
    which numbers.
    """

    dtype = "float32"

    def __init__(self, *, reach: Reach = pass_by) -> None:
        self.models: dict[str, dict[str, Any]] = {}
        self.reach = reach
        self.dead = False
        self.calls: list[str] = []
        self.joins = True

    async def ready(self) -> None:
        """At once."""

    async def create_model(self, model_id: str, lora: LoraConfig | None) -> None:
        await self.at(f"create_model {model_id}")
        assert model_id not in self.models, "a model is made once"
        if any(lora is None or model["lora"] is None for model in self.models.values()):
            raise InvalidTrainingInput("all weights of this base are trained by one model alone")
        self.models[model_id] = {
            "lora": vars(lora) if lora else None,
            "weights": "base",
            "gradient": [],
            "step": 0,
        }

    async def unload(self, model_id: str) -> None:
        del self.models[model_id]

    async def forward_backward_joined(
        self, calls: Sequence[ModelCall]
    ) -> list[ForwardResult] | None:
        """As a trainer that joins calls; with ``joins`` off, as one that does not."""
        await self.at(f"joined {len(calls)}")
        models = [self.model(call.model_id) for call in calls]
        try:
            for model, call in zip(models, calls, strict=True):
                model.result(call.data, call.loss_fn)
        except InvalidTrainingInput:
            return None
        if not self.joins:
            return None
        return [
            await model.forward_backward(call.data, call.loss_fn, call.loss_config)
            for model, call in zip(models, calls, strict=True)
        ]

    def model(self, model_id: str) -> "FakeClientModel":
        """The model of that id, which need not be there yet."""
        return FakeClientModel(self, model_id)

    async def export_state(self, state: Path, folder: Path) -> None:
        await self.at("export_state")
        saved = json.loads((state / "model.json").read_text())
        (folder / ("adapter.json" if saved["lora"] else "config.json")).write_text(
            json.dumps(saved["weights"])
        )

    async def restart(self) -> None:
        self.models.clear()

    async def close(self) -> None:
        self.dead = True

    async def at(self, point: str) -> None:
        """What a test wants to happen there, happens."""
        self.calls.append(point)
        await self.reach(point)


class FakeClientModel:
    """One of a FakeModelTrainer's."""

    def __init__(self, trainer: FakeModelTrainer, model_id: str) -> None:
        self._trainer, self._id = trainer, model_id

    @property
    def _model(self) -> dict[str, Any]:
        return self._trainer.models[self._id]

    async def forward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        await self._trainer.at(f"forward {self._id}")
        return self.result(data, loss_fn)

    async def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        await self._trainer.at(f"forward_backward {self._id}")
        result = self.result(data, loss_fn)
        self._model["gradient"].append(_digest(*map(datum_text, data), loss_fn, repr(loss_config)))
        return result

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        await self._trainer.at(f"optim_step {self._id}")
        model = self._model
        model["weights"] = _digest(model["weights"], *model["gradient"], repr(params))
        model["gradient"], model["step"] = [], model["step"] + 1
        return {"grad_norm": 1.0}

    async def save_state(self, folder: Path) -> None:
        await self._trainer.at(f"save_state {self._id}")
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text(json.dumps(self._model | {"model": self._id}))

    async def load_state(
        self, folder: Path, *, with_optimizer: bool = True, with_gradient: bool = False
    ) -> None:
        await self._trainer.at(f"load_state {self._id}")
        state = json.loads((folder / "model.json").read_text())
        step = state["step"] if with_optimizer else 0
        self._model.update(weights=state["weights"], step=step, gradient=[])
        if with_gradient:
            self._model["gradient"] = state["gradient"]

    async def publish(self, folder: Path) -> None:
        await self._trainer.at(f"publish {self._id}")
        folder.mkdir(exist_ok=True)
        # as real folders differ
        name = "adapter.json" if self._model["lora"] else "config.json"
        (folder / name).write_text(json.dumps(self._model["weights"]))

    async def export_model(self, folder: Path) -> None:
        if not self._model["lora"]:
            await self.publish(folder)
            return
        await self._trainer.at(f"export_model {self._id}")
        (folder / "merged").mkdir(parents=True)
        weights = json.dumps(self._model["weights"])
        for name in ("adapter_config.json", "adapter_model.safetensors", "merged/config.json"):
            (folder / name).write_text(weights)

    def result(self, data: Sequence[Datum], loss_fn: str) -> ForwardResult:
        """What a call returns, which changes nothing."""
        if self._id not in self._trainer.models:
            raise InvalidTrainingInput(f"there is no model {self._id}")
        if loss_fn not in ("cross_entropy", "importance_sampling"):
            raise InvalidTrainingInput(f"there is no loss {loss_fn!r}")
        outputs = []
        for index, datum in enumerate(data):
            if "target_tokens" not in datum.loss_inputs:
                raise InvalidTrainingInput(f"data[{index}] has no target_tokens")
            targets = datum.loss_inputs["target_tokens"]
            own = -np.ones(targets.shape, np.float32) * (1 + np.arange(targets.size) % 7)
            # it agrees with who sampled them
            outputs.append({"logprobs": datum.loss_inputs.get("logprobs", own)})
        return ForwardResult(
            tuple(outputs), {"loss:sum": float(sum(-o["logprobs"].sum() for o in outputs))}
        )


class FakeSamplerEngine:
    """Answers that depend on the prompt, the adapter's weights and the seed, and on nothing else.
    ``words`` streams text in its place; ``answer`` makes the ids of a sample of a prompt under its
    seed.
    """

    def __init__(self, *, context_length: int = 256, words: FakeEngine | None = None) -> None:
        self.words = words
        self.context_length, self.vocabulary_size = context_length, VOCABULARY
        self.dead, self.ending = False, "was killed"
        self.orders: list[SampleOrder] = []
        self.waiting = ""
        self.reach: Reach = pass_by
        self.answer: Callable[[Sequence[int], int | None], list[int]] | None = None

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        self.orders.append(order)
        await self.reach("sample")
        weights, options = weights_text(order.folder) or "base", order.options
        answers = []
        for index in range(order.num_samples):
            seed = None if options.seed is None else options.seed + index
            stream = hashlib.sha256(
                repr(
                    (order.prompt_ids, weights, seed, len(self.orders) if seed is None else 0)
                ).encode()
            )
            made = self.answer(order.prompt_ids, seed) if self.answer else list(stream.digest())
            ids = made[: options.max_tokens]
            stopped = next(
                (place for place, token in enumerate(ids) if token in options.stop_token_ids), None
            )
            ids = ids if stopped is None else ids[: stopped + 1]
            scores = tuple(-token / 64 / max(options.temperature, 0.1) for token in ids)
            top = tuple(
                {token: score, token + 1: score - 1}
                for token, score in zip(ids, scores, strict=True)
            )
            reason, shown = (
                "length" if stopped is None else "stop",
                top if options.top_logprobs else (),
            )
            answers.append(Delta("", tuple(ids), scores, 0, reason, shown))
        prompt = order.prompt_ids
        scores_P = (
            ({}, *({token: -token / 64} for token in prompt[1:]))
            if options.prompt_logprobs is not None
            else ()
        )
        targets_R = tuple(tuple(-token / 64 for token in row) for row in order.prompt_targets_R)
        draws_R = tuple(
            tuple((token + at, -token / 64) for at in range(order.prompt_draws))
            for token in prompt[1:] if order.prompt_draws
        )  # fmt: skip
        return SampleOutcome(
            tuple(answers), scores_P, targets_R, draws_R, cached_tokens=len(prompt) - 1
        )

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        folder: Path | None = None,
    ) -> AsyncIterator[Delta]:
        assert self.words is not None, "this test streams nothing"
        under = copy.copy(self.words)  # with the same script and the same log
        under.weights_text = weights_text(folder)
        async for delta in under.generate(request_id, prompt_ids, options):
            yield delta

    async def close(self) -> None:
        self.dead = True


def weights_text(folder: Path | None) -> str:
    """What FakeModelTrainer left in a sampler's folder: of an adapter, or of all weights."""
    return "" if folder is None else next(folder.glob("[ac]*.json")).read_text()


class FolderStore:
    """checkpoint_store.CheckpointStore over a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[NamedCheckpointOpen] = []
        self.is_away = False
        self.deleted: set[str] = set()  # checkpoints that end between being found and being fetched

    async def store(self, wanted: NamedCheckpointOpen, folder: Path, seq_id: int) -> int:
        target = self.folder / f"{wanted.model_id}-{wanted.segment}-{wanted.name}"
        if target.exists() and not wanted.overwrite:
            raise UserMistake(f"{wanted.name} is taken")
        self.opened.append(wanted)
        target.mkdir(parents=True, exist_ok=True)
        files = [file for file in folder.rglob("*") if file.is_file()]
        for file in files:
            kept = target / file.relative_to(folder)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(file.read_bytes())
        return sum(file.stat().st_size for file in files)

    async def find(self, model_id: str, path: str, *, optimizer: bool) -> ModelSource:
        stored = path.removeprefix("tinker://").replace("/", "-")
        if not (self.folder / stored).exists():
            raise UserMistake(f"There is no checkpoint {path}.")
        return ModelSource(path=path, checkpoint_id=stored, files=[], optimizer=optimizer)

    async def fetch(self, source: ModelSource) -> Path:
        if self.is_away:
            raise StoreUnavailable("no answer for 60 s")
        folder = self.folder / source.checkpoint_id
        if source.checkpoint_id in self.deleted or not folder.exists():
            raise CheckpointDeleted("the checkpoint was deleted")
        return folder


def _digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
