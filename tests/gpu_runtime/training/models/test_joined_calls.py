"""Calls of several models in one pass: each gets what it gets alone, to the bit, or none is
joined.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_runtime.model_interfaces import AdamParams, Datum, LoraConfig, ModelCall
from gpu_runtime.training.cpu.process import same_bits_keep
from gpu_runtime.training.models import joined
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rank_spec import RankSpec
from support.model_data import SETTINGS, drawn_data
from support.model_families import family_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
LORAS = {
    "all": LoraConfig(4, seed=1),
    "wide": LoraConfig(16, seed=2),
    "attention": LoraConfig(8, seed=3, train_mlp=False, train_unembed=False),
    "mlp": LoraConfig(8, seed=4, train_attn=False),
}
LOSSES = dict(zip(LORAS, ("cross_entropy", "ppo", "cispo", "cross_entropy"), strict=True))


def calls_of(seed: int = 0) -> list[ModelCall]:
    """One of each model. The data of a call share prefixes; those of one have two targets for each
    token.
    """
    return [
        ModelCall(
            model_id,
            drawn_data(name, seed=seed + at, targets=2 if model_id == "all" else None),
            name,
            SETTINGS[name],
        )
        for at, (model_id, name) in enumerate(LOSSES.items())
    ]


def trainer_open(folder: Path, **options: object) -> BaseWithModels:
    """Its adapters have made a step, so that what they add shows."""
    same_bits_keep()
    config = SessionConfig(max_context_length=256, max_tokens=64, **options)
    trainer = BaseWithModels(RankSpec(str(folder), config, 0, 1, "", "cpu", 2))
    for model_id, lora in LORAS.items():
        trainer.create_model(model_id, lora)
    alone(trainer, calls_of(seed=7))
    for model_id in LORAS:
        trainer.optim_step(model_id, AdamParams(learning_rate=0.1))
    return trainer


def alone(trainer: BaseWithModels, calls: list[ModelCall]) -> list:
    return [
        trainer.forward_backward(call.model_id, call.data, call.loss_fn, call.loss_config)
        for call in calls
    ]


def results_equal(found: list, expected: list) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.metrics == other.metrics
        for left, right in zip(one.outputs, other.outputs, strict=True):
            np.testing.assert_array_equal(left["logprobs"], right["logprobs"])


def same_bits_verify(folder: Path, state_of, **options: object) -> None:
    """Two calls of each model, so that a gradient is added to another."""
    one_by_one, at_once = (trainer_open(folder, **options) for _ in range(2))
    for calls in (calls_of(), calls_of(seed=40)):
        found = at_once.forward_backward_joined(calls)
        assert found is not None
        results_equal(found, alone(one_by_one, calls))
    for model_id in LORAS:
        expected, state = state_of(one_by_one, model_id), state_of(at_once, model_id)
        assert any(name.startswith("gradient") and of.any() for name, of in expected.items())
        assert expected.keys() == state.keys()
        for name, tensor in expected.items():
            assert torch.equal(state[name], tensor), f"{model_id}: {name}"


@pytest.fixture(scope="module")
def trainer(base: Path) -> BaseWithModels:
    return trainer_open(base)


def test_joined_calls_have_the_bits_of_calls_alone(base: Path, state_of) -> None:
    same_bits_verify(base, state_of)


@pytest.mark.parametrize("family", ["Gemma 2", "Qwen3", "Phi", "OLMo 2"])
def test_so_have_those_of_other_families(family: str, tmp_path: Path, state_of) -> None:
    """Windows shorter than the data, caps, norms of heads, biases."""
    same_bits_verify(family_make(tmp_path / "family", family), state_of)


@pytest.mark.parametrize("options", [{"gradient_checkpointing": True}, {"dtype": "bfloat16"}])
def test_so_have_those_under_other_options(base: Path, state_of, options: dict) -> None:
    same_bits_verify(base, state_of, **options)


def test_after_a_joined_pass_a_model_alone_computes_as_before(trainer: BaseWithModels) -> None:
    before = alone(trainer, calls_of())
    assert trainer.forward_backward_joined(calls_of(seed=9)) is not None
    results_equal(alone(trainer, calls_of()), before)


def datum(tokens: int, weight: float = 1.0, first: int = 3) -> Datum:
    inputs = {
        "target_tokens": np.full(tokens, 4),
        "weights": np.full(tokens, weight, dtype=np.float32),
    }
    return Datum(np.array([first, *[5] * (tokens - 1)]), inputs)


MISTAKES = {
    "a loss that is none": {"loss_fn": "nonsense"},
    "no data": {"data": []},
    "an id beyond the vocabulary": {"data": [datum(2, first=10_000)]},
    "a model that is not there": {"model_id": "gone"},
    "one token": {"data": [datum(1)]},
    "a loss that is not finite": {"data": [datum(2, np.inf)]},
    "a gradient that is not finite": {"data": [datum(2, 3e37)]},
    "more tokens than a pass has": {"data": [datum(200) for _ in range(6)]},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_nothing_is_accumulated_where_one_call_cannot_be_joined(
    trainer: BaseWithModels, state_of, mistake: str
) -> None:
    first, *others = calls_of()
    before = {model_id: state_of(trainer, model_id) for model_id in LORAS}
    assert trainer.forward_backward_joined([replace(first, **MISTAKES[mistake]), *others]) is None
    for model_id, expected in before.items():
        state = state_of(trainer, model_id)
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())
    assert trainer.forward_backward_joined([first, *others]) is not None


def test_none_is_joined_on_a_machine_whose_products_round_by_their_size(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, plain = trainer_open(base), Policy.forward_joined

    def rounded(policy: Policy, rows: list) -> list[torch.Tensor]:
        scores = plain(policy, rows)
        return [each * (1 + 1e-6) for each in scores] if len(rows) > 1 else scores

    monkeypatch.setattr(Policy, "forward_joined", rounded)
    assert trainer.forward_backward_joined(calls_of()) is None
    monkeypatch.undo()
    assert trainer.forward_backward_joined(calls_of()) is None, "it is tried once"


@pytest.mark.parametrize("family", ["Gemma 3", "Mistral"])
def test_a_window_that_chooses_the_kernel_changes_no_bits(
    family: str, tmp_path: Path, state_of
) -> None:
    """A call within the window may have another kernel than one beyond it."""
    folder = family_make(tmp_path / "family", family)
    short, *others = calls_of()
    calls = [replace(short, data=[datum(3)], loss_fn="cross_entropy", loss_config={}), *others]
    found = trainer_open(folder).forward_backward_joined(calls)
    if found is not None:
        results_equal(found, alone(trainer_open(folder), calls))


def test_no_datum_is_joined_that_is_longer_than_those_that_were_tried(
    trainer: BaseWithModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = calls_of()
    longest = max(len(each.token_ids_N) for call in others for each in call.data)
    monkeypatch.setattr(joined, "LONGEST", longest)
    for length, joins in ((longest, True), (longest + 1, False)):
        call = replace(first, data=[datum(length)], loss_fn="cross_entropy", loss_config={})
        assert (trainer.forward_backward_joined([call, *others]) is not None) is joins


def test_a_model_with_broken_weights_does_not_decide_for_the_others(base: Path) -> None:
    trainer = trainer_open(base)
    alone(trainer, calls_of()[1:2])
    trainer.optim_step("wide", AdamParams(learning_rate=1e38))
    assert trainer.forward_backward_joined(calls_of()) is None
    others = [call for call in calls_of() if call.model_id != "wide"]
    assert trainer.forward_backward_joined(others) is not None


def test_none_is_joined_whose_gradients_have_no_room(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_runtime.training.models.trainer.JOINED_PART", 0.0)
    assert trainer_open(base).forward_backward_joined(calls_of()) is None


def test_none_is_joined_of_a_mixture_of_experts(tmp_path: Path) -> None:
    """An expert multiplies the tokens that chose it: alone that may be one."""
    trainer = trainer_open(family_make(tmp_path / "mixture", "Qwen3-MoE"))
    assert trainer.forward_backward_joined(calls_of()) is None


def test_none_is_joined_of_a_model_of_all_weights(trainer_of) -> None:
    trainer = trainer_of()
    trainer.create_model("whole", None)
    first, *_ = calls_of()
    assert trainer.forward_backward_joined([replace(first, model_id="whole")]) is None
