"""The engine on a CPU takes the experts that a router's corrected scores choose."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

# vLLM's modules warn as they are imported
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def routed(chosen: SimpleNamespace, logits_TE: torch.Tensor) -> Any:
    from gpu_runtime.engine.cpu.expert_kernels import _routing_corrected

    return _routing_corrected(chosen, logits_TE, logits_TE, None)


def router(scoring: str, bias: torch.Tensor | None) -> SimpleNamespace:
    return SimpleNamespace(
        top_k=2, renormalize=True, scoring_func=scoring, e_score_correction_bias=bias,
        use_grouped_topk=False, custom_routing_function=None, routed_scaling_factor=1.5,
    )  # fmt: skip


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_a_correction_chooses_experts_and_weighs_none(scoring: str) -> None:
    logits_TE = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    scores_TE = logits_TE.softmax(-1) if scoring == "softmax" else logits_TE.sigmoid()
    bias_E = torch.tensor([-5.0, 0.0, 0.0, 5.0])
    weights, experts = routed(router(scoring, bias_E), logits_TE)
    assert sorted(experts[0].tolist()) == [1, 3]
    expected = scores_TE[0, experts[0].long()]
    torch.testing.assert_close(weights[0], 1.5 * expected / expected.sum())


def test_sigmoids_without_a_correction_are_computed_and_a_plain_router_is_vllms_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logits_TE = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    _, experts = routed(router("sigmoid", None), logits_TE)
    assert sorted(experts[0].tolist()) == [0, 1]
    monkeypatch.setattr("gpu_runtime.engine.cpu.expert_kernels._routing", lambda *_, **__: "own")
    assert routed(router("softmax", None), logits_TE) == "own"
