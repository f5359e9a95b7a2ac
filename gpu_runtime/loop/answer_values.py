"""Values of the tokens of samples, as those of each answer.

Shape legend: S samples, T tokens of one sample.
"""

from collections.abc import Sequence

from gpu_runtime.interfaces import Sample
from gpu_runtime.journal.trainer_logprobs import AnswerKey, TokenValues

from .batching import Batch


def by_answer(
    batch: Batch, samples: Sequence[Sample], values_ST: Sequence[Sequence[float]]
) -> TokenValues:
    """Of each answer that a sample of ``batch`` trains the value of each token; None for one that
    is not trained. Of no answer where there are no values.
    """
    if not values_ST:
        return {}
    known = {call.id: call for episode in batch.episodes for call in episode.calls}
    found: dict[AnswerKey, tuple[float | None, ...]] = {}
    for sample, values_T in zip(samples, values_ST, strict=True):
        for call in (known[call_id] for call_id in dict.fromkeys(sample.call_ids)):
            start = len(call.prompt_ids_P)
            for answer in call.completions:
                end = start + len(answer.token_ids_T)
                mask = sample.mask_T[start:end]
                if any(mask) and sample.token_ids_T[start:end] == answer.token_ids_T:
                    values = zip(values_T[start:end], mask, strict=True)
                    found[call.id, answer.choice] = tuple(
                        value if trained else None for value, trained in values
                    )
    return found
