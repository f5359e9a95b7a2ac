"""What vLLM leaves out of a model is in what the engine computes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gpu_runtime.engine.model_repairs import REPAIRED, model_repair

TOKENS, LAYERS, SIZE = 3, 2, 4


class PhiMoEForCausalLM(nn.Module):
    """As vLLM's: a head with a bias, of which it computes the logits without it."""

    def __init__(self) -> None:
        super().__init__()
        self.lm_head = nn.Linear(SIZE, 5)

    def logits_processor(
        self, head: nn.Linear, hidden_states: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        return nn.functional.linear(hidden_states, head.weight, bias)

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        return self.logits_processor(self.lm_head, hidden_states)


class Gemma3nForCausalLM(nn.Module):
    """As vLLM's: embeddings per layer that it reads where it is handed them."""

    config = SimpleNamespace(num_hidden_layers=LAYERS, hidden_size_per_layer_input=SIZE)

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.per_layer = nn.Embedding(9, LAYERS * SIZE)
        vars(self.model)["get_per_layer_input_embeddings"] = self.per_layer

    def forward(
        self, input_ids: Tensor | None, positions: Tensor, *, per_layer_inputs: Any = None
    ) -> Any:
        return per_layer_inputs


def test_the_logits_of_phi_moe_have_the_bias_of_its_head() -> None:
    model, hidden_states = PhiMoEForCausalLM(), torch.randn(TOKENS, SIZE)
    for _ in range(2):  # again changes nothing
        model_repair(model)
    assert torch.equal(model.compute_logits(hidden_states), model.lm_head(hidden_states))


def test_a_text_model_of_gemma_3n_reads_its_embeddings_per_layer() -> None:
    model, ids = Gemma3nForCausalLM(), torch.tensor([1, 8, 3])
    for _ in range(2):
        model_repair(model)
    found = model(input_ids=ids, positions=torch.arange(TOKENS))
    assert torch.equal(found, model.per_layer(ids).view(TOKENS, LAYERS, SIZE))
    handed = torch.zeros(TOKENS, LAYERS, SIZE)
    assert model(ids, torch.arange(TOKENS), per_layer_inputs=handed) is handed


def test_any_other_model_stays_as_it_is() -> None:
    model = nn.Linear(1, 1)
    before = dict(vars(model))
    model_repair(model)
    assert vars(model) == before


@pytest.mark.engine
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # vLLM's modules warn as they are imported
def test_the_classes_that_are_repaired_are_vllms_own() -> None:
    from vllm.model_executor.models.gemma3n import Gemma3nForCausalLM as Gemma
    from vllm.model_executor.models.phimoe import PhiMoEForCausalLM as Phi

    assert {kind.__name__: hasattr(kind, REPAIRED[kind.__name__][0]) for kind in (Gemma, Phi)} == (
        dict.fromkeys(REPAIRED, True)
    )
