"""Seeded requests whose prompt is computed in pieces, on a CPU.

After each piece of a prompt vLLM samples a token and throws it away, and what the request's
generator spent on it is taken back with ``set_offset``. A CPU's generator has no offset: vLLM 0.32
raises, and the engine is dead. It takes one request with a seed, in a batch whose prompts are
longer together than ``max_num_batched_tokens``.
"""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpu_runtime.engine.raw_logprobs import SAMPLE

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner


def seeds_keep(runner: "GPUModelRunner") -> None:
    """Leave generators out of a batch while the token of their request is thrown away; called once.

    They are spent on nothing then, so that a seed gives the same tokens in however many pieces its
    prompt was computed.
    """
    worker = cast(Any, runner)
    sample = getattr(worker, SAMPLE)

    def sampled(*arguments: Any, **options: Any) -> Any:
        batch = worker.input_batch
        thrown_away = np.flatnonzero(worker.discard_request_mask.np[: batch.num_reqs])
        kept = {
            row: batch.generators.pop(row)
            for row in map(int, thrown_away)
            if row in batch.generators
        }
        try:
            return sample(*arguments, **options)
        finally:
            batch.generators.update(kept)

    setattr(worker, SAMPLE, sampled)
