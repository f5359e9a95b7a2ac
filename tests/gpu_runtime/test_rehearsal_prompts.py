"""The rehearsal for Tinker clients compares scores of prompts as it compares sampled tokens."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_runtime.errors import EngineTrainerMismatch
from gpu_runtime.interfaces import Delta, SampleOrder, SampleOutcome
from gpu_runtime.loading.rehearsal import rehearse_models
from gpu_runtime.model_interfaces import Datum, ForwardResult


def score(token: int) -> float:
    """What both say of a token."""
    return -1.0 - token % 5 / 4


class Trainer:
    dtype = "float32"

    async def forward(self, data: Sequence[Datum], *_: Any) -> ForwardResult:
        outputs = [
            {"logprobs": np.array([score(int(t)) for t in each.loss_inputs["target_tokens"]])}
            for each in data
        ]
        return ForwardResult(tuple(outputs), {})

    async def _nothing(self, *_: Any) -> None:
        """Of an adapter that is made, trained, exported and gone."""

    create_model = forward_backward = optim_step = publish = unload = _nothing

    def model(self, _: str) -> "Trainer":
        return self


class Engine:
    """Says of the tokens of a prompt ``off`` more than of the same when they are sampled: of its
    own, or of those that are named, with an adapter or without.
    """

    context_length = 64

    def __init__(self, *, own: float = 0.0, named: float = 0.0, adapter: bool = True) -> None:
        self._own, self._named, self._adapter = own, named, adapter

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        ids = tuple(range(3, 3 + order.options.max_tokens))
        answer = Delta("", ids, tuple(map(score, ids)), 0, "length")
        assert len(order.prompt_ids) + len(ids) <= self.context_length
        is_off = (order.folder is not None) == self._adapter
        own, named = self._own * is_off, self._named * is_off
        return SampleOutcome(
            (answer,),
            ({}, *({token: score(token) + own} for token in order.prompt_ids[1:])),
            tuple(tuple(score(token) + named for token in row) for row in order.prompt_targets_R),
        )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 64}))
    return tmp_path


async def test_an_engine_that_scores_as_it_samples_passes(model: Path) -> None:
    await rehearse_models(Engine(), Trainer(), model, model / "adapter")


@pytest.mark.parametrize("what", ["own", "named"])
@pytest.mark.parametrize(
    "adapter, when", [(True, "with an adapter"), (False, "with the base weights")]
)
async def test_an_engine_that_scores_a_prompt_otherwise_is_refused(
    model: Path, what: str, adapter: bool, when: str
) -> None:
    engine = Engine(**{what: 0.1}, adapter=adapter)
    with pytest.raises(EngineTrainerMismatch, match=f"in the scores of a prompt {when}: a KL of"):
        await rehearse_models(engine, Trainer(), model, model / "adapter")
