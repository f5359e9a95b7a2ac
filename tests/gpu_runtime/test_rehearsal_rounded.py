"""In bfloat16 a rehearsal names the one weight that a hand-over left as it was, although rounding
is as large.
"""

import copy
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineTrainerMismatch
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.loading.rehearsal import rehearse
from gpu_runtime.model_interfaces import Datum, ForwardResult, LossConfig, counted_of
from gpu_runtime.training.losses import kl_k3
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.flip import each_unflipped, weights_digest, weights_flip
from gpu_runtime.weights.reader import MappedWeights
from support.model_families import family_make
from support.published_weights import published_weights
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import OLD, TARGETS

pytestmark = pytest.mark.system


class PlainTrainer:
    """What a rehearsal asks of a trainer, on one model in bfloat16 and without a gradient."""

    dtype = "bfloat16"

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="eager"
        )

    @torch.no_grad()
    def scores(self, data: Sequence[Datum]) -> list[np.ndarray]:
        ids = torch.tensor(np.array([datum.token_ids_N for datum in data]))
        targets = torch.tensor(np.array([datum.loss_inputs[TARGETS] for datum in data]))
        scores = self.model(ids, use_cache=False).logits.float().log_softmax(-1)
        return list(scores.gather(-1, targets[..., None])[..., 0].numpy())

    async def logprobs(self, data: Sequence[Datum]) -> list[np.ndarray]:
        return self.scores(data)

    async def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        engine = torch.tensor(counted_of(data, [datum.loss_inputs[OLD] for datum in data]))
        now = torch.tensor(counted_of(data, self.scores(data)))
        return ForwardResult((), {"kl_engine": kl_k3(engine, now).mean().item()})

    async def each_unflipped(self, data: Sequence[Datum]) -> dict[str, list[float]]:
        named = [(name, weight.data) for name, weight in self.model.named_parameters()]
        return dict(each_unflipped(named, lambda: counted_of(data, self.scores(data))))

    async def flip_weights(self) -> None:
        weights_flip(self.model.parameters())

    async def weights_digest(self) -> str:
        return str(weights_digest(self.model.parameters(), torch.device("cpu")).tolist())

    async def drop_gradient(self) -> None:
        pass

    async def publish(self, folder: Path) -> None:
        pass


class RoundedEngine:
    """The trainer's model computed in float32; a hand-over leaves the weights that ``stale`` names
    as they were.
    """

    version, context_length, shares_device = 0, 128, False

    def __init__(self, trainer: PlainTrainer, stale: str | None) -> None:
        self.trainer, self.stale = trainer, stale
        self.model = copy.deepcopy(trainer.model).float()

    async def load_weights(self, folder: Path, version: int) -> None:
        for (name, weight), new in zip(
            self.model.named_parameters(), self.trainer.model.parameters(), strict=True
        ):
            if self.stale is None or not name.startswith(self.stale):
                weight.data = new.data.float()

    async def generate(
        self, name: str, prompt: Sequence[int], options: SamplingOptions
    ) -> AsyncIterator[Delta]:
        torch.manual_seed(options.seed or 0)
        ids: list[int] = []
        logprobs: list[float] = []
        with torch.no_grad():
            for _ in range(options.max_tokens):
                scores = (
                    self.model(torch.tensor([[*prompt, *ids]]), use_cache=False)
                    .logits[0, -1]
                    .log_softmax(-1)
                )
                ids.append(int(torch.multinomial(scores.exp(), 1)))
                logprobs.append(scores[ids[-1]].item())
        yield Delta("", tuple(ids), tuple(logprobs), 0, finish_reason="length")


async def rehearsed(folder: Path, *stale: str | None) -> None:
    trainer: Any = PlainTrainer(folder)
    engines: Any = [RoundedEngine(trainer, each) for each in stale]
    base = await trainer.weights_digest()
    try:
        await rehearse(
            engines[0] if len(engines) == 1 else Replicas(engines), trainer, folder, folder
        )
    finally:
        assert await trainer.weights_digest() == base, (
            "whatever it finds, the trainer has its weights again"
        )


@pytest.mark.parametrize(
    "stale",
    [("model.layers.0.self_attn.q_proj",), ("model.layers.0.mlp",), (None, "lm_head")],
    ids=["attention", "MLP", "head of one of two engines"],
)
async def test_exactly_one_stale_module_is_named(
    tmp_path: Path, stale: tuple[str | None, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(
        EngineTrainerMismatch, match=rf"computes as if {stale[-1]}[.\w]* had its old weights"
    ):
        await rehearsed(family_make(tmp_path, "Llama"), *stale)
    noted = [record.message for record in caplog.records if "differ by a KL" in record.message]
    assert ["base weights" in noted[0], "changed weights" in noted[1]] == [True, True]


async def test_rounding_alone_is_no_stale_weight(tmp_path: Path) -> None:
    await rehearsed(family_make(tmp_path, "Llama"), None)


class ForgetfulEngine:
    """A real engine to which a hand-over brings the weights of ``base`` in place of those that
    ``stale`` names.
    """

    def __init__(self, engine: VllmEngine, stale: str, base: dict[str, torch.Tensor]) -> None:
        self._engine, self._stale, self._base = engine, stale, base
        self._mapped = MappedWeights()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def load_weights(self, folder: Path, version: int) -> None:
        named = {
            name: each
            for name, each in self._mapped.of(folder).items()
            if name.startswith(self._stale)
        }
        new = {name: each.clone() for name, each in named.items()}
        for name, each in named.items():
            each.copy_(self._base[name])
        await self._engine.load_weights(folder, version)
        for name, each in named.items():  # they are the trainer's own
            each.copy_(new[name])


@pytest.mark.engine
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_real_engine_that_keeps_one_old_module_is_found_out(tmp_path: Path) -> None:
    """vLLM and DeepSpeed in bfloat16. Its fused layers keep a part: queries alone, the gate
    alone.
    """
    tiny_model_make(tmp_path / "model")  # for its tokenizer
    model, handover = family_make(tmp_path / "model", "Llama"), tmp_path / "handover"
    config = SessionConfig(max_context_length=128, dtype="bfloat16")
    trainer = TrainerRanks(str(model), config, "cpu")
    try:
        engine = await VllmEngine.start(EngineSpec(str(model), config, "cpu"))
        try:
            await trainer.ready()
            await rehearse(engine, trainer, model, handover)
            base = published_weights(handover)
            for module in (
                "layers.0.self_attn.q_proj",
                "layers.1.mlp.gate_proj",
                "layers.1.self_attn",
                "layers.0.mlp",
            ):
                forgetful: Any = ForgetfulEngine(engine, f"model.{module}", base)
                named = rf"computes as if model\.{module}[.\w]* had its old weights"
                with pytest.raises(EngineTrainerMismatch, match=named):
                    await rehearse(forgetful, trainer, model, handover)
                await trainer.publish(handover)
                await engine.load_weights(handover, engine.version)
            await rehearse(engine, trainer, model, handover)
        finally:
            await engine.close()
    finally:
        await trainer.close()
