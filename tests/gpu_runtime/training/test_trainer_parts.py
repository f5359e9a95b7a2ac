"""Parts of a trainer that need no model: shares of rows, merged adapters, a moving reference,
DeepSpeed's options.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import LoraConfig
from gpu_runtime.training.lora import adapter_weights, plain_weights
from gpu_runtime.training.models.adapters import ALPHA
from gpu_runtime.training.models.export import full_weights
from gpu_runtime.training.objective.reference import EmaReference
from gpu_runtime.training.optimizer import deepspeed_config
from gpu_runtime.training.rows.row_pass import RowModel, rows_pass
from tinkerscript.wire.config import SessionConfig

CPU = torch.device("cpu")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_row_counts_once_however_many_ranks_take_part(ranks: int) -> None:
    """A rank without a row left repeats one: its gradient is that of nothing, and nobody counts
    it.
    """
    data = sample_data(
        [Sample((1, 2 + n), (0, 1), (0.0, -1.0), 1.0, 1.0, 0) for n in range(5)], [1.0] * 5
    )
    passed, live, told = [], [], []
    for rank in range(ranks):
        model = RowModel(
            CPU, lambda row: row.target_K.float(), passed.append, rank=rank, world_size=ranks
        )
        rows = list(
            rows_pass(
                model,
                data,
                [[n] for n in range(5)],
                lambda row: lambda scores: (scores.sum(), "told"),
            )
        )
        told.append(len(rows))
        live += [row.tree.indices for row in rows if row.live]
    assert sorted(live) == [(0,), (1,), (2,), (3,), (4,)] and len(set(told)) == 1
    assert sum(value.item() for value in passed) == 2 + 3 + 4 + 5 + 6


def adapted_model() -> nn.Module:
    """One layer with an adapter beside it, as peft has it, and one without."""
    model, layer = nn.Module(), nn.Module()
    layer.base_layer = nn.Linear(3, 2, bias=False)
    layer.get_base_layer = lambda: layer.base_layer
    layer.lora_A = nn.ModuleDict({"default": nn.Linear(3, 1, bias=False)})
    layer.lora_B = nn.ModuleDict({"default": nn.Linear(1, 2, bias=False)})
    layer.scaling = {"default": 0.25}
    model.up, model.norm = layer, nn.Linear(2, 2, bias=False)
    return model


def test_a_weight_leaves_with_its_adapter_under_the_bases_own_name() -> None:
    model = adapted_model()
    weights = {name: made() for name, _, made in plain_weights(model)}
    product = model.up.lora_B["default"].weight @ model.up.lora_A["default"].weight
    assert set(weights) == {"up.weight", "norm.weight"}
    torch.testing.assert_close(weights["up.weight"], model.up.base_layer.weight + 0.25 * product)
    torch.testing.assert_close(weights["norm.weight"], model.norm.weight)


def test_a_model_of_a_client_leaves_with_its_adapter_too() -> None:
    model = adapted_model()
    adapter = {name: parameter.detach() for name, (parameter,), _ in adapter_weights(model)}
    lora = LoraConfig(rank=1)  # ALPHA / rank is the factor
    weights = full_weights(model, adapter, lora)
    plain = full_weights(model, {}, None)
    assert set(weights) == set(plain) == {"up.weight", "norm.weight"}
    torch.testing.assert_close(plain["up.weight"], model.up.base_layer.weight.detach())
    moved = weights["up.weight"] - plain["up.weight"]
    product = adapter["up.lora_B.weight"] @ adapter["up.lora_A.weight"]
    torch.testing.assert_close(moved, ALPHA * product)
    assert torch.equal(weights["norm.weight"], plain["norm.weight"])


def test_a_moving_reference_keeps_most_of_itself_at_each_step() -> None:
    reference, policy = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    before = reference.weight.detach().clone()
    EmaReference(reference, 0.9).follow(policy)
    torch.testing.assert_close(
        reference.weight.detach(), 0.9 * before + 0.1 * policy.weight.detach()
    )


def test_deepspeed_is_told_the_options_of_the_session() -> None:
    config = SessionConfig(grad_clip=0.4, zero_stage=3)
    told = SimpleNamespace(**deepspeed_config(config, torch.bfloat16))
    assert (told.gradient_clipping, told.zero_optimization["stage"], told.bf16["enabled"]) == (
        0.4,
        3,
        True,
    )
    assert told.managed_gradient_accumulation is False and told.data_types == {
        "grad_accum_dtype": "fp32"
    }
    assert deepspeed_config(config, torch.float32)["bf16"]["enabled"] is False
