"""Which adapter takes part: chosen at each call, and looked for in the model once a change."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from gpu_runtime.model_interfaces import LoraConfig
from gpu_runtime.training.models.adapters import Adapters, adapters_bytes

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 11,
}
IDS = torch.tensor([[1, 2, 3]])


@pytest.fixture
def model():
    return LlamaForCausalLM(LlamaConfig(**SIZES)).requires_grad_(False)


def test_each_choice_is_that_adapter_alone_also_after_another_one_came_or_went(model) -> None:
    adapters = Adapters(model)
    base = model(IDS).logits
    given = {}
    for number, name in enumerate(("a", "b")):
        given[name] = adapters.add(name, LoraConfig(2, train_mlp=bool(number)), name)
        for weight in given[name].values():
            weight.data.fill_(0.1 * (number + 1))

    def logits(name: str) -> torch.Tensor:
        adapters.select(name)
        return model(IDS).logits

    of_a, of_b = logits("a"), logits("b")
    assert not torch.equal(of_a, base) and not torch.equal(of_a, of_b)
    adapters.add("c", LoraConfig(2), "c")  # peft chooses what it adds
    assert torch.equal(logits("b"), of_b) and torch.equal(logits("a"), of_a)
    adapters.remove("a")
    assert torch.equal(logits("b"), of_b)
    logits("b").sum().backward()
    assert {name: any(it.grad is not None for it in given[name].values()) for name in "ab"} == {
        "a": False,
        "b": True,
    }


def test_the_gradient_of_a_call_is_counted_once_for_all_adapters(model) -> None:
    lora = LoraConfig(2)
    asked = [adapters_bytes(model, [lora] * count) for count in (0, 1, 3)]
    size = 4 * sum(it.numel() for it in Adapters(model).add("a", lora, "a").values())
    assert asked == [0, 5 * size, 13 * size], "weights, gradient and two moments are of each"


def test_the_model_is_not_walked_to_choose_an_adapter(model, monkeypatch) -> None:
    adapters = Adapters(model)
    for name in ("a", "b"):
        adapters.add(name, LoraConfig(2), name)

    def refused(*_: object) -> None:
        raise AssertionError("the model's modules were walked")

    monkeypatch.setattr(type(model), "named_modules", refused)
    monkeypatch.setattr(type(model), "modules", refused)
    adapters.select("a")
    adapters.select("b")
