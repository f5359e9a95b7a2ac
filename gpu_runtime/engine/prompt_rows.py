"""Named tokens and draws at every place of a prompt, in vLLM's worker, which itself scores the likeliest tokens alone.

A request that asks for them carries ``RowsAsked`` in its ``extra_args``, and as many log-probabilities of the prompt as
the widest of its rows has columns; each row that comes back is the prompt's own token, then what was asked for.

Shape legend: R rows (prompt tokens but the first), W columns asked for in a row, D draws, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    import torch
    from vllm.logprobs import FlatLogprobs
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

KEY = "prompt_rows"
SCORING = "_get_prompt_logprobs_dict"  # the runner's method that scores the prompts of a batch, in vLLM 0.32
PIECE = 64  # rows whose distributions are summed up at a time: a vocabulary of doubles for each


@dataclass(frozen=True)
class RowsAsked:
    """``ids`` are padded to one width; ``seed`` makes the draws, at ``temperature``."""

    ids: list[list[int]]  # [R][W]
    draws: int
    temperature: float
    seed: int

    @classmethod
    def of(cls, targets: Sequence[Sequence[int]], rows: int, draws: int, temperature: float, seed: int) -> "RowsAsked":
        """The rows as they are asked for, or ``rows`` of none."""
        given = targets or [()] * rows
        width = max(map(len, given), default=0)
        return cls([[*ids, *[0] * (width - len(ids))] for ids in given], draws, temperature, seed)

    @property
    def columns(self) -> int:
        """W + D."""
        return len(self.ids[0]) + self.draws

    def extra_args(self) -> dict[str, Any]:
        """What a request carries."""
        return {KEY: asdict(self)}


def columns_read(flat: "FlatLogprobs", row: int, first: int, count: int) -> list[tuple[int, float]]:
    """Tokens and log-probabilities of ``count`` columns of a row, from ``first`` of those asked for."""
    begin = flat.start_indices[row + 1] + 1 + first  # of the first prompt token there is nothing
    return list(zip(flat.token_ids[begin : begin + count], flat.logprobs[begin : begin + count], strict=True))


def rows_install(runner: "GPUModelRunner") -> None:
    """Have the runner serve such requests; called once, before the first."""
    worker = cast(Any, runner)
    scored, gather = getattr(worker, SCORING), worker.sampler.gather_logprobs
    current: list[Any] = []  # the request whose prompt is scored

    def one_by_one(hidden_states: Any, scheduled: dict[str, int]) -> dict[str, Any]:
        """The runner's own scores, for a request at a time, so that ``gathered`` knows whose rows it is given."""
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
    ids_RW = torch.tensor(asked.ids[first : first + count], dtype=torch.int64).reshape(count, -1)
    uniform_RD = np.random.default_rng(asked.seed).random((len(asked.ids), asked.draws))[first : first + count]
    draws_RD = draws(logprobs_RV, torch.from_numpy(uniform_RD), asked.temperature)
    columns = torch.cat([own_R.unsqueeze(1), ids_RW, draws_RD], dim=1)
    ranks_R = torch.ones(count, dtype=torch.int32)  # not read
    return LogprobsTensors(columns.to(torch.int32), logprobs_RV.gather(1, columns), ranks_R)


def draws(logprobs_RV: "torch.Tensor", uniform_RD: "torch.Tensor", temperature: float) -> "torch.Tensor":
    """Independent draws of each row at ``temperature``, one for each uniform number: where it falls in the summed
    distribution. At temperature 0 the likeliest token."""
    import torch

    if temperature == 0:
        return logprobs_RV.argmax(1, keepdim=True).expand(-1, uniform_RD.shape[1])
    found = []
    for scores, uniform in zip(logprobs_RV.split(PIECE), uniform_RD.split(PIECE), strict=True):
        summed = (scores.double() / temperature).softmax(1).cumsum(1)
        found.append(torch.searchsorted(summed, uniform * summed[:, -1:], right=True))
    return torch.cat(found).clamp_(max=logprobs_RV.shape[1] - 1)
