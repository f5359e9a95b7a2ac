"""Experts that vLLM multiplies with on a CPU are those that it was last given, and those that the
model's router chooses.
"""

from typing import Any

from torch import Tensor
from vllm.model_executor.layers.fused_moe.router.cpu_router import CPURouter, _grouped_topk
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import (
    UnquantizedFusedMoEMethod,
)

_setup = UnquantizedFusedMoEMethod._setup_kernel  # noqa: SLF001 - what is made right here
_routing = CPURouter._compute_routing  # noqa: SLF001 - what is made right here


def experts_install() -> None:
    """Let a reload pack the experts of a layer, as the first load does, and let every router
    correct its scores.

    vLLM 0.32.0 packs them as it makes the layer's kernel. It makes none for new weights, and would
    multiply with rows that lie as in the file as if they were packed. Of experts that are in no
    groups it computes the softmax alone: it ends on sigmoids (LFM2, MiniMax M2), and leaves out the
    correction of scores (ERNIE 4.5). Those of one group it computes right.
    """
    UnquantizedFusedMoEMethod._setup_kernel = _setup_anew  # noqa: SLF001
    CPURouter._compute_routing = _routing_corrected  # noqa: SLF001


def _setup_anew(method: Any, layer: Any, w13: Tensor, w2: Tensor) -> None:
    method.moe_kernel = None
    _setup(method, layer, w13, w2)


def _routing_corrected(
    router: Any, hidden_states: Tensor, router_logits: Tensor, *others: Any, **options: Any
) -> tuple[Tensor, Tensor]:
    is_plain = router.scoring_func == "softmax" and router.e_score_correction_bias is None
    is_known = router.custom_routing_function is None and router.scoring_func != "sqrtsoftplus"
    if is_plain or router.use_grouped_topk or not is_known:
        routed: tuple[Tensor, Tensor] = _routing(
            router, hidden_states, router_logits, *others, **options
        )
        return routed
    chosen: tuple[Tensor, Tensor] = _grouped_topk(
        gating_output=router_logits,
        topk=router.top_k,
        renormalize=router.renormalize,
        num_expert_group=1,
        topk_group=1,
        scoring_func=router.scoring_func,
        routed_scaling_factor=router.routed_scaling_factor,
        e_score_correction_bias=router.e_score_correction_bias,
    )
    return chosen
