"""Log-probabilities at temperature 1 and over all ids, in vLLM's worker, beside those that were
sampled from.

vLLM returns one kind for each engine (``logprobs_mode``), and this one is of what was sampled from.
A request that asks for the other too says so in its ``extra_args`` and asks for one alternative
more than it shows: that last column gets the number. Its id is one that the row has not yet, since
vLLM keeps a row as a mapping from ids.

Everything is computed on the device of the logits, and nothing of it is read back: a GPU is not
waited for.

Shape legend: B sequences of a batch, R of them that ask, V vocabulary, K log-probabilities of a
row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from gpu_runtime.interfaces import SamplingOptions

if TYPE_CHECKING:
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

KEY = "raw_logprobs"
# The runner's methods, in vLLM 0.32: the first applies grammars to the logits in place, then calls
# the second.
SAMPLE, SAMPLER = "sample_tokens", "_sample"


def is_raw(options: SamplingOptions) -> bool:
    """Whether tokens come from the model's own distribution, so that both numbers are one."""
    penalties = options.frequency_penalty, options.presence_penalty, options.repetition_penalty
    return (
        options.temperature in (0.0, 1.0)
        and options.top_p == 1.0
        and penalties == (0.0, 0.0, 1.0)
        and options.json_schema is None
        and options.structural_tag is None
        and not (options.top_k or options.min_p or options.logit_bias or options.min_tokens)
    )


def raw_asked() -> dict[str, Any]:
    """``extra_args`` of a request that asks."""
    return {KEY: True}


def raw_install(runner: "GPUModelRunner") -> None:
    """Have the runner serve such requests; called once, before the first."""
    worker = cast(Any, runner)
    sample, sampler = getattr(worker, SAMPLE), getattr(worker, SAMPLER)
    # rows that ask, their columns, their logits untouched
    kept: list[tuple[list[int], list[int], torch.Tensor]] = []

    def sampled(*arguments: Any, **options: Any) -> Any:
        state = worker.execute_model_state
        kept.clear()
        if state is not None and state.logits is not None and (asking := _asking(worker)):
            rows = list(asking)
            kept.append((rows, list(asking.values()), state.logits[rows].float()))
        return sample(*arguments, **options)

    def filled(*arguments: Any, **options: Any) -> Any:
        output = sampler(*arguments, **options)
        for rows, columns, logits_RV in kept:
            raw_fill(output.logprobs_tensors, rows, columns, logits_RV)
        return output

    setattr(worker, SAMPLE, sampled)
    setattr(worker, SAMPLER, filled)


def raw_fill(
    tensors: Any, rows: Sequence[int], columns: Sequence[int], logits_RV: "torch.Tensor"
) -> None:
    """Put z(v) - logsumexp(z) of each row's sampled token v, its first id, into the row's
    column.
    """
    import torch

    ids_BK, logprobs_BK = tensors.logprob_token_ids, tensors.logprobs
    rows_R, columns_R = (torch.tensor(each, device=ids_BK.device) for each in (rows, columns))
    ids_RK = ids_BK[rows_R].long()
    logprobs_BK[rows_R, columns_R] = logits_RV.gather(1, ids_RK[:, :1])[:, 0] - logits_RV.logsumexp(
        1
    )
    # The least id that is none of the row's before the column: K + 1 of them are looked at, so that
    # one is free.
    places_K = torch.arange(ids_RK.shape[1], device=ids_BK.device)
    taken_RK = ids_RK.masked_fill(places_K >= columns_R[:, None], -1)
    free_F = torch.arange(ids_RK.shape[1] + 1, device=ids_BK.device)
    is_taken_RF = (taken_RK[:, None, :] == free_F[:, None]).any(-1)
    ids_BK[rows_R, columns_R] = is_taken_RF.int().cummin(1).values.sum(1).to(ids_BK.dtype)


def _asking(worker: Any) -> dict[int, int]:
    """Of each row of the batch that asks the column for its number."""
    parameters = [
        worker.requests[request_id].sampling_params for request_id in worker.input_batch.req_ids
    ]
    return {row: of.logprobs for row, of in enumerate(parameters) if (of.extra_args or {}).get(KEY)}
