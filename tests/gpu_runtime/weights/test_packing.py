"""New weights of a model whose matrices vLLM could not pack: on a processor without instructions
for their type.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

# What vLLM imports warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class LlamaForCausalLM(nn.Module):
    """Known by its name: an embedding, one linear layer and a head, as vLLM leaves them where it
    packs nothing.
    """

    packed_modules_mapping: dict[str, list[str]] = {}

    def __init__(self) -> None:
        from vllm.model_executor.layers.vocab_parallel_embedding import (
            ParallelLMHead,
            VocabParallelEmbedding,
        )

        super().__init__()
        for name, kind in (
            ("embed", VocabParallelEmbedding),
            ("down", nn.Linear),
            ("lm_head", ParallelLMHead),
        ):
            layer = kind.__new__(kind)
            nn.Module.__init__(layer)
            layer.weight = nn.Parameter(
                torch.zeros(4, 4, dtype=torch.bfloat16), requires_grad=False
            )
            layer.cpu_linear = lambda rows, weight, bias: linear(rows, weight, bias)
            self.add_module(name, layer)


@pytest.mark.system  # it imports vLLM
def test_layers_that_multiply_by_their_plain_weight_go_on_with_the_new_one():
    from gpu_runtime.weights.packing import WeightPacking

    model, rows = LlamaForCausalLM(), torch.eye(4, dtype=torch.bfloat16)
    tensors: dict[str, Tensor] = {
        f"{name}.weight": torch.full((4, 4), number, dtype=torch.bfloat16)
        for number, name in enumerate(("embed", "down", "lm_head"), 1)
    }
    assert WeightPacking(model).take(tensors)
    assert torch.equal(model.embed.weight, tensors["embed.weight"])
    for name in ("down", "lm_head"):
        layer = getattr(model, name)
        assert torch.equal(
            layer.cpu_linear(rows, layer.weight, None), tensors[f"{name}.weight"].T
        ), name
