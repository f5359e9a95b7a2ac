"""Steps are torch's AdamW on the sum of the gradients; the same operations give the same bits, also
after a load.
"""

import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from gpu_runtime.model_interfaces import (
    AdamParams,
    InvalidTrainingInput,
    LoraConfig,
    state_describe,
)
from support.model_data import drawn_data

pytestmark = pytest.mark.engine
ADAM = [
    AdamParams(learning_rate=1e-2, weight_decay=0.1),
    AdamParams(learning_rate=5e-3, beta1=0.8, beta2=0.99, eps=1e-6, grad_clip_norm=0.5),
    AdamParams(learning_rate=2e-3),
]
KINDS = {"adapters": LoraConfig(4, seed=1), "all weights": None}


@pytest.fixture(scope="module")
def trainer(trainer_of):
    return trainer_of()


@pytest.fixture(params=KINDS)
def model(trainer, request):
    trainer.create_model("m", KINDS[request.param])
    yield trainer
    trainer.unload("m")


def weights(state: dict) -> dict:
    return {name.split()[1]: tensor for name, tensor in state.items() if name.startswith("weights")}


def gradient(state: dict) -> dict:
    return {
        name.split()[1]: tensor for name, tensor in state.items() if name.startswith("gradient")
    }


def equal(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_steps_are_those_of_plain_adamw_on_the_accumulated_gradient(model, state_of):
    """Two calls before each step: their gradients add up. Parameters of Adam change from step to
    step.
    """
    plain = {
        name: torch.nn.Parameter(tensor.clone())
        for name, tensor in weights(state_of(model, "m")).items()
    }
    adam = torch.optim.AdamW(plain.values(), foreach=False, fused=False)
    for step, params in enumerate(ADAM):
        halves = []
        for half in (drawn_data("cross_entropy", seed=step), drawn_data("ppo", seed=step)):
            before = gradient(state_of(model, "m"))
            model.forward_backward(
                "m",
                half,
                "ppo" if half[0].loss_inputs.get("advantages") is not None else "cross_entropy",
                {},
            )
            after = gradient(state_of(model, "m"))
            halves.append({name: after[name] - before.get(name, 0.0) for name in after})
        for name, parameter in plain.items():
            parameter.grad = after[name].clone()
            torch.testing.assert_close(
                parameter.grad, halves[0][name] + halves[1][name], rtol=1e-4, atol=1e-4
            )
        norm = clip_grad_norm_(plain.values(), params.grad_clip_norm or math.inf)
        adam.param_groups[0] |= {
            "lr": params.learning_rate, "betas": (params.beta1, params.beta2), "eps": params.eps,
            "weight_decay": params.weight_decay,
        }  # fmt: skip
        adam.step()
        assert model.optim_step("m", params)["grad_norm"] == pytest.approx(norm.item(), rel=1e-5)
        now = state_of(model, "m")
        assert not gradient(now)
        for name, tensor in weights(now).items():
            torch.testing.assert_close(tensor, plain[name].detach(), rtol=1e-5, atol=1e-7, msg=name)


def test_adapters_on_a_base_in_bfloat16_are_float32_and_a_small_step_moves_them(
    trainer_of, state_of
):
    """As on every GPU: in eight bits a step of 1e-6 would leave most of A as it was."""
    rounded = trainer_of(dtype="bfloat16")
    rounded.create_model("m", KINDS["adapters"])
    # the first moves B away from zero: before it, A has no gradient
    for learning_rate in (1e-2, 1e-6):
        before = weights(state_of(rounded, "m"))
        rounded.forward_backward("m", drawn_data("cross_entropy"), "cross_entropy", {})
        rounded.optim_step("m", AdamParams(learning_rate=learning_rate))
    after = weights(state_of(rounded, "m"))
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    moved = torch.cat(
        [(after[name] != before[name]).flatten() for name in after if "lora_A" in name]
    )
    assert moved.float().mean() > 0.9


def test_a_step_without_a_gradient_succeeds(model):
    assert model.optim_step("m", AdamParams()) == {"grad_norm": 0.0}


def operations(trainer, at: int) -> None:
    for step in range(at, 3):
        trainer.forward_backward("m", drawn_data("gspo", seed=step), "gspo", {})
        trainer.forward_backward("m", drawn_data("cross_entropy", seed=step), "cross_entropy", {})
        trainer.optim_step("m", ADAM[step])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_operations_give_the_same_bits_also_from_a_state_in_the_middle(
    trainer, kind, state_of, tmp_path
):
    """The state is taken between two calls whose gradients add up, and read by a model that began
    otherwise.
    """
    lora = KINDS[kind]
    trainer.create_model("m", lora)
    trainer.forward_backward("m", drawn_data("gspo", seed=0), "gspo", {})
    trainer.save_state("m", tmp_path / "middle")
    trainer.forward_backward("m", drawn_data("cross_entropy", seed=0), "cross_entropy", {})
    trainer.optim_step("m", ADAM[0])
    trainer.save_state("m", tmp_path / "step")
    operations(trainer, 1)
    first = state_of(trainer, "m")
    trainer.unload("m")

    trainer.create_model("m", lora)
    operations(trainer, 0)
    assert equal(state_of(trainer, "m"), first), "from the start again"
    trainer.load_state("m", tmp_path / "middle", True, True)
    trainer.forward_backward("m", drawn_data("cross_entropy", seed=0), "cross_entropy", {})
    trainer.optim_step("m", ADAM[0])
    operations(trainer, 1)
    assert equal(state_of(trainer, "m"), first), "from between two calls"
    trainer.load_state("m", tmp_path / "step", True, False)
    operations(trainer, 1)
    assert equal(state_of(trainer, "m"), first), "from after a step"
    trainer.load_state("m", tmp_path / "step", False, False)
    operations(trainer, 1)
    assert not equal(weights(state_of(trainer, "m")), weights(first)), (
        "without the optimizer it is a fresh Adam"
    )
    assert state_describe(tmp_path / "step")["step"] == 1
    trainer.unload("m")


def test_models_side_by_side_do_not_touch_each_other(trainer, state_of):
    alone, beside = LoraConfig(4, seed=1), LoraConfig(2, seed=9, train_attn=False)
    trainer.create_model("m", alone)
    operations(trainer, 0)
    expected = state_of(trainer, "m")
    trainer.unload("m")

    trainer.create_model("m", alone)
    trainer.create_model("other", beside)
    before = state_of(trainer, "other")
    for step in range(3):
        trainer.forward_backward("m", drawn_data("gspo", seed=step), "gspo", {})
        trainer.forward("other", drawn_data("gspo", seed=step), "gspo", {})
        trainer.forward_backward("m", drawn_data("cross_entropy", seed=step), "cross_entropy", {})
        trainer.optim_step("m", ADAM[step])
    assert equal(state_of(trainer, "m"), expected)
    assert equal(state_of(trainer, "other"), before)
    trainer.forward_backward("other", drawn_data("gspo"), "gspo", {})
    trainer.optim_step("other", ADAM[0])
    assert equal(state_of(trainer, "m"), expected)
    trainer.unload("m")
    trainer.unload("other")


def test_parts_and_seeds_of_an_adapter_are_honoured(trainer, state_of):
    found = {}
    for name, lora in {
        "attention": LoraConfig(4, train_mlp=False, train_unembed=False, seed=1),
        "mlp": LoraConfig(4, train_attn=False, train_unembed=False, seed=1),
        "head": LoraConfig(4, train_attn=False, train_mlp=False, seed=1),
        "another seed": LoraConfig(4, train_attn=False, train_mlp=False, seed=2),
        "named a": LoraConfig(4), "named b": LoraConfig(4),
    }.items():  # fmt: skip
        trainer.create_model(name, lora)
        found[name] = weights(state_of(trainer, name))
        trainer.unload(name)
    layers = {
        name: {each.rsplit(".", 2)[0].rsplit(".", 1)[-1] for each in found[name]} for name in found
    }
    assert layers["attention"] == {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert layers["mlp"] == {"gate_proj", "up_proj", "down_proj"}
    assert layers["head"] == {"lm_head"}
    assert not equal(found["head"], found["another seed"])
    assert not equal(found["named a"], found["named b"]), "without a seed the id is the seed"


def test_after_a_model_of_all_weights_the_base_is_as_it_was(trainer):
    data = drawn_data("cross_entropy")
    trainer.create_model("a", LoraConfig(2))
    before = trainer.forward("a", data, "cross_entropy", {}).metrics
    trainer.unload("a")
    trainer.create_model("all", None)
    with pytest.raises(InvalidTrainingInput, match="'all' trains all weights"):
        trainer.create_model("a", LoraConfig(2))
    trainer.forward_backward("all", data, "cross_entropy", {})
    trainer.optim_step("all", AdamParams(learning_rate=1e-2))
    assert trainer.forward("all", data, "cross_entropy", {}).metrics != before
    trainer.unload("all")
    trainer.create_model("a", LoraConfig(2))
    with pytest.raises(InvalidTrainingInput, match="1 models with adapters"):
        trainer.create_model("all", None)
    assert trainer.forward("a", data, "cross_entropy", {}).metrics == before
    trainer.unload("a")
