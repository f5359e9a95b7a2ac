"""``gradient_checkpointing`` of the many-model trainer: layers are computed twice, the gradient
stays the same.
"""

import pytest
import torch

from gpu_runtime.model_interfaces import LoraConfig
from support.model_data import drawn_data

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore:.*tie:UserWarning")]


def computed(trainer, lora: LoraConfig | None, state_of) -> tuple[int, int, int, dict]:
    """How often the first layer's MLP ran with a gradient and without one, the bytes that were
    saved, the state.
    """
    trainer.create_model("a", lora)
    calls: list[int] = []
    saved: dict[int, int] = {}
    policy = trainer._policy  # noqa: SLF001 - the layers themselves are counted
    mlp = next(module for name, module in policy.named_modules() if name.endswith(".mlp"))
    mlp.register_forward_pre_hook(lambda *_: calls.append(1))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    data = drawn_data("cross_entropy")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.forward_backward("a", data, "cross_entropy", {})
    with_gradient = len(calls)
    trainer.forward("a", data, "cross_entropy", {})
    return with_gradient, len(calls) - with_gradient, sum(saved.values()), state_of(trainer, "a")


@pytest.mark.parametrize("lora", [LoraConfig(rank=4), None], ids=["adapters", "all weights"])
def test_layers_are_computed_twice_and_less_is_saved_and_the_gradient_is_the_same(
    trainer_of, state_of, lora
):
    plain = computed(trainer_of(), lora, state_of)
    recomputed = computed(trainer_of(gradient_checkpointing=True), lora, state_of)
    assert (plain[:2], recomputed[:2]) == ((1, 1), (2, 1))
    assert recomputed[2] < 0.8 * plain[2], "the activations inside of layers are not saved"
    assert plain[3].keys() == recomputed[3].keys()
    assert all(torch.equal(recomputed[3][name], value) for name, value in plain[3].items())


def test_a_row_that_is_too_long_for_its_part_of_the_memory_is_computed_twice(
    trainer_of, state_of, monkeypatch
):
    plain = computed(trainer_of(), None, state_of)
    monkeypatch.setattr("gpu_runtime.training.models.trainer.ROW_PART", 0.0)
    long = computed(trainer_of(), None, state_of)
    assert (plain[:2], long[:2]) == ((1, 1), (2, 1))
    assert all(torch.equal(long[3][name], value) for name, value in plain[3].items())
