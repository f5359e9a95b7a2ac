"""Sampling in vLLM's worker on a CPU by one number a token: the inverse of the distribution
function.

vLLM draws a Gumbel variable for each id of the vocabulary. Of 16 sequences and 49,152 ids that
takes as long as the products of four layers; this takes a tenth of it. The distribution is the same
one: id v is drawn where a uniform number falls into the interval of length p(v) that v has in [0,
1), so that an id of probability 0 never is.

The lengths are added up by blocks of ids, and then within the block that is drawn. Shapes: B
sequences of a batch, V vocabulary, G blocks of S ids.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

BLOCK = 256


def sampling_install(runner: "GPUModelRunner") -> None:
    """Have the runner draw so; called once. Random numbers come from a request's generator where it
    has a seed.
    """
    sampler = cast(Any, runner).sampler.topk_topp_sampler
    if sampler.logprobs_mode != "processed_logprobs" or sampler.use_fp64_gumbel:
        return
    # the worker has it in memory
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

    def drawn(
        logits_BV: Tensor,
        generators: dict[int, torch.Generator],
        k: Tensor | None,
        p: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        logprobs_BV = apply_top_k_top_p(logits_BV, k, p).log_softmax(dim=-1, dtype=torch.float32)
        points_B = torch.rand(len(logprobs_BV), dtype=torch.float64)
        for row, generator in generators.items():
            points_B[row] = torch.rand((), dtype=torch.float64, generator=generator)
        return inverse_draw(logprobs_BV, points_B), logprobs_BV

    sampler.forward = drawn


def inverse_draw(logprobs_BV: Tensor, points_B: Tensor) -> Tensor:
    """The id of each row in whose interval the row's point of [0, 1) falls, ``[B]``; minus infinity
    is never drawn.

    A row of NaN has some id, whose log-probability says what it is: the batch's other rows go on.
    """
    count = len(logprobs_BV)
    weights_BV = pad(logprobs_BV, (0, -logprobs_BV.shape[1] % BLOCK), value=-torch.inf).exp_()
    weights_BGS = weights_BV.view(count, -1, BLOCK)
    until_BG = weights_BGS.sum(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    place_B1 = _below(points_B[:, None] * until_BG[:, -1:], until_BG[:, -1:])
    block_B1 = torch.searchsorted(until_BG, place_B1, right=True).clamp_(max=until_BG.shape[1] - 1)
    before_B1 = pad(until_BG, (1, 0)).gather(1, block_B1)
    until_BS = weights_BGS[torch.arange(count), block_B1[:, 0]].cumsum(dim=-1, dtype=torch.float64)
    within_B1 = torch.searchsorted(
        until_BS, _below(place_B1 - before_B1, until_BS[:, -1:]), right=True
    )
    return (block_B1 * BLOCK + within_B1)[:, 0].clamp_(max=logprobs_BV.shape[1] - 1)


def _below(place_B1: Tensor, end_B1: Tensor) -> Tensor:
    """The place, or what comes before ``end`` where rounding took it there."""
    return torch.minimum(place_B1, torch.nextafter(end_B1, torch.zeros_like(end_B1)))
