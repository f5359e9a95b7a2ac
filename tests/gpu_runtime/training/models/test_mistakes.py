"""A mistake of the caller is named: datum, tensor, shape; and nothing of its call is
accumulated.
"""

import dataclasses
import math

import numpy as np
import pytest

from gpu_runtime.model_interfaces import AdamParams, Datum, InvalidTrainingInput, LoraConfig
from support.model_data import VOCABULARY, drawn_data
from tinkerscript.processes import machine_share

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def trainer(trainer_of):
    trainer = trainer_of(max_context_length=64)
    trainer.create_model("m", LoraConfig(2, seed=1))
    return trainer


def changed(name: str, at: int, **inputs) -> list[Datum]:
    """Good data for a loss but for some tensors of datum ``at``; None takes a tensor away."""
    data = drawn_data(name)
    merged = {
        key: value for key, value in {**data[at].loss_inputs, **inputs}.items() if value is not None
    }
    return [*data[:at], dataclasses.replace(data[at], loss_inputs=merged), *data[at + 1 :]]


def with_tokens(at: int, tokens: np.ndarray) -> list[Datum]:
    data = drawn_data("cross_entropy")
    return [*data[:at], dataclasses.replace(data[at], token_ids_N=tokens), *data[at + 1 :]]


N = len(drawn_data("ppo")[2].token_ids_N)
MISTAKES = {
    "no data": ([], "ppo", {}, "data is empty"),
    "unknown loss": (drawn_data("ppo"), "grpo", {}, "loss_fn 'grpo' is unknown; there are cross_entropy"),
    "a loss of ones own": (drawn_data("ppo"), "custom", {}, "'custom' is unknown; .* forward_backward_custom"),
    "unknown setting": (drawn_data("ppo"), "ppo", {"kl_beta": 0.1}, "'kl_beta' is no setting of ppo; it has clip_low"),
    "text for a number": (drawn_data("dro"), "dro", {"beta": "big"}, "'beta' must be a finite number, not 'big'"),
    "NaN for a number": (drawn_data("dro"), "dro", {"beta": math.nan}, "'beta' must be a finite number"),
    "distances for bounds": (
        drawn_data("ppo"), "ppo", {"clip_low_threshold": 1.3}, "must be 0 <= low <= high: they are bounds of the ratio",
    ),
    "missing tensor": (changed("ppo", 2, advantages=None), "ppo", {}, "datum 2 has no tensor 'advantages'"),
    "unknown tensor": (changed("ppo", 1, mask=np.ones(3)), "ppo", {}, "datum 1 has a tensor 'mask' .* does not use"),
    "short tensor": (
        changed("ppo", 2, logprobs=np.zeros(N - 1)), "ppo", {}, rf"datum 2, logprobs has the shape \[{N - 1}\]",
    ),
    "short targets": (
        changed("ppo", 2, target_tokens=np.zeros(N - 1, dtype=int)), "ppo", {},
        rf"datum 2, target_tokens has the shape \[{N - 1}\]; its model_input has {N} tokens",
    ),
    "targets of two dimensions": (
        changed("ppo", 2, target_tokens=np.zeros((N, 2), dtype=int)), "ppo", {}, rf"ppo takes \[{N}\]",
    ),
    "NaN": (changed("ppo", 2, advantages=np.full(N, np.nan)), "ppo", {}, r"datum 2, advantages is nan at \[0\]"),
    "infinite weight": (
        changed("cross_entropy", 2, weights=np.full(N, np.inf)), "cross_entropy", {}, "datum 2, weights is inf",
    ),
    "target out of range": (
        changed("ppo", 2, target_tokens=np.full(N, VOCABULARY)), "ppo", {},
        r"datum 2, target_tokens has the token 98 at \[0\]; this model's tokens are 0 to 97",
    ),
    "negative target": (changed("ppo", 2, target_tokens=np.full(N, -100)), "ppo", {}, "has the token -100"),
    "float targets": (changed("ppo", 2, target_tokens=np.zeros(N)), "ppo", {}, "target_tokens holds float64"),
    "token out of range": (with_tokens(2, np.full(N, 98)), "cross_entropy", {}, "model_input has the token 98"),
    "no tokens": (with_tokens(2, np.zeros(0, dtype=int)), "cross_entropy", {}, "datum 2, model_input is empty"),
    "too long": (with_tokens(2, np.zeros(65, dtype=int)), "cross_entropy", {}, "datum 2 has 65 tokens; .* at most 64"),
    "mask of halves": (
        changed("gspo", 2, sequence_ratio_mask=np.full(N, 0.5)), "gspo", {}, "sequence_ratio_mask must hold 0 and 1",
    ),
    # Found when it is computed: the data before it were, and their gradient is not kept.
    "ratio that overflows": (
        changed("ppo", 2, logprobs=np.full(N, -1e4), advantages=np.full(N, -1.0)), "ppo", {}, "the loss of datum 2 is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(trainer, mistake, state_of):
    data, name, settings, words = MISTAKES[mistake]
    trainer.forward_backward("m", drawn_data("dro"), "dro", {})
    before = state_of(trainer, "m")
    with pytest.raises(InvalidTrainingInput, match=words):
        trainer.forward_backward("m", data, name, settings)
    after = state_of(trainer, "m")
    assert before.keys() == after.keys()
    assert any(key.startswith("gradient") for key in after)
    assert all((before[key] == after[key]).all() for key in before)


@pytest.mark.parametrize(
    ("lora", "words"),
    [(LoraConfig(0), "lora rank 0"), (LoraConfig(1024), "must be 1 to 512"),
     (LoraConfig(4, train_attn=False, train_mlp=False, train_unembed=False), "nothing would be trained")],
)  # fmt: skip
def test_an_adapter_that_is_none_is_refused(trainer, lora, words):
    with pytest.raises(InvalidTrainingInput, match=words):
        trainer.create_model("new", lora)


def test_a_gradient_that_is_not_finite_is_refused_and_forgotten(trainer, state_of):
    trainer.forward_backward("m", drawn_data("dro"), "dro", {})
    before = state_of(trainer, "m")
    next(iter(trainer._models["m"].parameters.values())).grad.fill_(math.nan)  # noqa: SLF001
    with pytest.raises(
        InvalidTrainingInput,
        match=r"not finite \(norm nan\): the weights stand and .* is forgotten",
    ):
        trainer.optim_step("m", AdamParams())
    after = state_of(trainer, "m")
    assert all((before[key] == after[key]).all() for key in after)
    assert not any("gradient" in key for key in after)


def test_models_and_states_that_are_not_there_or_do_not_fit_are_named(trainer, tmp_path):
    with pytest.raises(InvalidTrainingInput, match="there is no model 'x'"):
        trainer.forward("x", drawn_data("ppo"), "ppo", {})
    with pytest.raises(InvalidTrainingInput, match="the model 'm' exists"):
        trainer.create_model("m", LoraConfig(2))
    with pytest.raises(InvalidTrainingInput, match="no saved state at 'nowhere'"):
        trainer.load_state("m", tmp_path / "nowhere", True, False)
    trainer.create_model("larger", LoraConfig(3))
    trainer.save_state("larger", tmp_path / "larger")
    with pytest.raises(
        InvalidTrainingInput, match=r"is of LoRA rank 3 .* this model is of LoRA rank 2"
    ):
        trainer.load_state("m", tmp_path / "larger", True, False)
    trainer.unload("larger")


def test_an_adapter_that_memory_has_no_room_for_is_refused_with_the_numbers(trainer, monkeypatch):
    monkeypatch.setattr(machine_share, "memory_bytes", lambda: 64 << 20)
    trainer.create_model("small", LoraConfig(8))
    with pytest.raises(
        InvalidTrainingInput, match=r"rank 512 needs \d+ MiB .* 2 models have 0 of the 16 MiB"
    ):
        trainer.create_model("large", LoraConfig(512))
    trainer.unload("small")
