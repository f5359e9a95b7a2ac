"""Named tokens and draws at every place of a prompt, in vLLM's worker, which itself scores the
likeliest tokens alone.

A request that asks for them carries ``RowsAsked`` in its ``extra_args``, and as many
log-probabilities of the prompt as the widest of its rows has columns; each row that comes back is
the prompt's own token, then what was asked for. vLLM's own ``prompt_logprob_token_ids`` is served
by its second model runner alone, which an engine of ours has not (model_runner.py).

Shape legend: R rows (prompt tokens but the first), W columns asked for in a row, D draws, V
vocabulary.
"""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpu_runtime.interfaces import SampleOrder

if TYPE_CHECKING:
    import torch
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

KEY = "prompt_rows"
# the runner's method that scores the prompts of a batch, in vLLM 0.32
SCORING = "_get_prompt_logprobs_dict"
TargetScores = tuple[tuple[float, ...], ...]
Draws = tuple[tuple[tuple[int, float], ...], ...]
PIECE = 64  # rows whose distributions are summed up at a time: a vocabulary of doubles for each


@dataclass(frozen=True)
class RowsAsked:
    """``ids`` are padded to one width; ``seed`` makes the draws, at ``temperature``."""

    ids: list[list[int]]  # [R][W]
    draws: int
    temperature: float
    seed: int

    @classmethod
    def of(cls, order: SampleOrder) -> "RowsAsked":
        """The rows as they are asked for, or those of draws alone. Without a seed draws are others
        each time.
        """
        given, options = order.prompt_targets_R or [()] * (len(order.prompt_ids) - 1), order.options
        width = max(map(len, given))
        seed = secrets.randbits(62) if options.seed is None else options.seed
        ids = [[*ids, *[0] * (width - len(ids))] for ids in given]
        return cls(ids, order.prompt_draws, options.temperature, seed)

    @property
    def columns(self) -> int:
        """W + D."""
        return len(self.ids[0]) + self.draws

    def parameters(self) -> "SamplingParams":
        """What a request carries."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        return SamplingParams(
            max_tokens=1,
            detokenize=False,
            prompt_logprobs=self.columns,
            flat_logprobs=True,  # in their order, with those that are there twice
            extra_args={KEY: asdict(self)},
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def read(self, flat: Any, targets_R: Sequence[Sequence[int]]) -> tuple[TargetScores, Draws]:
        """The scores of ``targets_R``, as they were asked for, and what was drawn, from vLLM's
        FlatLogprobs.
        """

        def columns(row: int, first: int, count: int) -> list[tuple[int, float]]:
            # of the first prompt token there is nothing
            begin = flat.start_indices[row + 1] + 1 + first
            return list(
                zip(
                    flat.token_ids[begin : begin + count],
                    flat.logprobs[begin : begin + count],
                    strict=True,
                )
            )

        scores = tuple(
            tuple(score for _, score in columns(row, 0, len(ids)))
            for row, ids in enumerate(targets_R)
        )
        width = self.columns - self.draws
        return scores, tuple(tuple(columns(row, width, self.draws)) for row in range(len(self.ids)))


def rows_install(runner: "GPUModelRunner") -> None:
    """Have the runner serve such requests; called once, before the first."""
    worker = cast(Any, runner)
    scored, gather = getattr(worker, SCORING), worker.sampler.gather_logprobs
    current: list[Any] = []  # the request whose prompt is scored

    def one_by_one(hidden_states: Any, scheduled: dict[str, int]) -> dict[str, Any]:
        """The runner's own scores, for a request at a time, so that ``gathered`` knows whose rows
        it is given.
        """
        waiting, results = runner.num_prompt_logprobs, dict[str, Any]()
        try:
            for request_id, columns in list(waiting.items()):
                runner.num_prompt_logprobs = {request_id: columns}
                current[:] = [runner.requests[request_id]]
                results |= scored(hidden_states, scheduled)
                if not runner.num_prompt_logprobs:
                    del waiting[request_id]
        finally:
            runner.num_prompt_logprobs = waiting
            current.clear()
        return results

    def gathered(logprobs: Any, num_logprobs: int, token_ids: Any) -> Any:
        asked = (current[0].sampling_params.extra_args or {}).get(KEY) if current else None
        if asked is None:
            return gather(logprobs, num_logprobs, token_ids)
        return _rows(RowsAsked(**asked), logprobs, current[0].num_computed_tokens, token_ids)

    setattr(worker, SCORING, one_by_one)
    worker.sampler.gather_logprobs = gathered


def _rows(asked: RowsAsked, logprobs_RV: "torch.Tensor", first: int, own_R: "torch.Tensor") -> Any:
    """The rows from ``first`` on, of one piece of a prompt."""
    import torch
    from vllm.v1.outputs import LogprobsTensors

    count = len(own_R)
    place = logprobs_RV.device
    ids_RW = torch.tensor(asked.ids[first : first + count], dtype=torch.int64, device=place)
    ids_RW = ids_RW.reshape(count, -1)
    uniform_RD = np.random.default_rng(asked.seed).random((len(asked.ids), asked.draws))[
        first : first + count
    ]
    draws_RD = draws(logprobs_RV, torch.from_numpy(uniform_RD).to(place), asked.temperature)
    columns = torch.cat([own_R.unsqueeze(1), ids_RW, draws_RD], dim=1)
    ranks_R = torch.ones(count, dtype=torch.int32, device=place)  # not read
    return LogprobsTensors(columns.to(torch.int32), logprobs_RV.gather(1, columns), ranks_R)


def draws(
    logprobs_RV: "torch.Tensor", uniform_RD: "torch.Tensor", temperature: float
) -> "torch.Tensor":
    """Independent draws of each row at ``temperature``, one for each uniform number: where it falls
    in the summed distribution. At temperature 0 the likeliest token.
    """
    import torch

    if temperature == 0:
        return logprobs_RV.argmax(1, keepdim=True).expand(-1, uniform_RD.shape[1])
    found = []
    for scores, uniform in zip(logprobs_RV.split(PIECE), uniform_RD.split(PIECE), strict=True):
        summed = (scores.double() / temperature).softmax(1).cumsum(1)
        found.append(torch.searchsorted(summed, uniform * summed[:, -1:], right=True))
    return torch.cat(found).clamp_(max=logprobs_RV.shape[1] - 1)


def prompt_heads_install(runner: "GPUModelRunner") -> None:
    """Have the logits of a prompt's rows get the adapter of their own request, on a GPU; called
    once, before ``rows_install``, by which one prompt is scored at a time.

    vLLM 0.32 computes them from all rows of a prompt with the adapters of the sampled rows: row i
    of the prompt gets the head of the batch's i-th sequence, also where the prompt itself has no
    adapter. Its kernels read the rows' adapters from ``prompt_mapping_meta``, which has room for
    all rows of a batch: for those of a prompt it is made from their tokens' adapters.
    """
    from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

    worker, add = cast(Any, runner), PunicaWrapperGPU.add_lora_logits
    scored = getattr(worker, SCORING)
    under_way: list[bool] = []

    def scored_with_own(*arguments: Any, **options: Any) -> Any:
        under_way.append(True)
        try:
            return scored(*arguments, **options)
        finally:
            under_way.clear()

    def added(wrapper: Any, logits: Any, states: Any, *arguments: Any, **options: Any) -> None:
        if not under_way:
            add(wrapper, logits, states, *arguments, **options)
            return
        (request_id,) = runner.num_prompt_logprobs
        first = int(runner.query_start_loc.np[runner.input_batch.req_id_to_index[request_id]])
        count, meta = states.numel() // states.shape[-1], wrapper.prompt_mapping_meta
        meta.prepare_tensors(wrapper.token_lora_indices[first : first + count])
        try:
            add(wrapper, logits, states, *arguments, **options)
        finally:
            meta.prepare_tensors(wrapper.sampler_indices)

    setattr(worker, SCORING, scored_with_own)
    PunicaWrapperGPU.add_lora_logits = added
