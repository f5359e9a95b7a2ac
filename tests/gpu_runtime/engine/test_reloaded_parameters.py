"""Weights that a reload of vLLM loses are given to the loaders of their parameters."""

from functools import partial
from typing import Any

import torch
from torch import nn

from gpu_runtime.engine.model_repairs import reloads_prepare


class GptOssModel(nn.Module):
    """As vLLM's loader calls it: each weight by its name, before it would be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []

    def _try_load_streamed_expert(self, name: str, *_: Any) -> bool:
        self.taken.append(name)
        return False


class Loaded(nn.Parameter):
    """A parameter that keeps what its loader was given."""

    def weight_loader(self, parameter: Any, weight: torch.Tensor, **given: Any) -> None:
        parameter.given.append((weight.tolist(), given))


def test_experts_go_one_by_one_to_the_loader_that_knows_a_ranks_part() -> None:
    model = GptOssModel()
    reloads_prepare(model)
    name = "layers.0.mlp.experts.routed_experts.w13_bias"
    parameter: Any = Loaded(torch.zeros(2, 3))
    parameter.given = []
    loaded: set[str] = set()
    weight = torch.arange(6.0).view(2, 3)
    assert model._try_load_streamed_expert(name, weight, {name: parameter}, loaded)  # noqa: SLF001
    assert loaded == {name} and not model.taken
    rows, given = zip(*parameter.given, strict=True)
    assert list(rows) == weight.tolist()
    assert given == tuple(
        {"weight_name": name, "shard_id": "gpt_oss_w13", "expert_id": expert} for expert in (0, 1)
    )


def test_any_other_weight_is_left_to_the_models_own_loader() -> None:
    model = GptOssModel()
    reloads_prepare(model)
    for name in ("layers.0.attn.qkv_proj.weight", "layers.0.mlp.experts.0.w13_weight"):
        assert not model._try_load_streamed_expert(name, torch.zeros(1), {}, set())  # noqa: SLF001
    assert len(model.taken) == 2


def test_a_loader_without_a_name_gets_that_of_its_function() -> None:
    layer = nn.Linear(1, 1)
    vars(layer.weight)["weight_loader"] = partial(Loaded.weight_loader, shard=1)
    reloads_prepare(layer)
    loader: Any = layer.weight.weight_loader
    assert loader.__name__ == "weight_loader"
