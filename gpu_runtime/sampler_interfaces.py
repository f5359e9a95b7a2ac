"""The engine that samples for Tinker clients, as its callers see it. No torch in here.

Shape legend: T tokens of an answer, P tokens of a prompt, R its rows: the places of its tokens but
the first.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpu_runtime.interfaces import Delta, EngineProcess, SamplingOptions


@dataclass(frozen=True)
class SampleOrder:
    """What a Tinker client asks of an engine at once: ``num_samples`` answers to one prompt, and
    scores of the prompt.

    ``prompt_targets_R`` are tokens to be scored at each place after the first (empty: none
    anywhere), and ``prompt_draws`` so many tokens are drawn at each of them, at the temperature of
    ``options`` alone. ``folder`` has the weights (``SamplerEngine``).
    """

    prompt_ids: tuple[int, ...]
    options: SamplingOptions
    num_samples: int = 1
    prompt_targets_R: tuple[tuple[int, ...], ...] = ()
    prompt_draws: int = 0
    folder: Path | None = None


@dataclass(frozen=True)
class SampleOutcome:
    """The answers to a SampleOrder, each whole: the token, or those of the string, that stopped one
    is at its end.

    ``prompt_logprobs_P`` are as a Delta's. Of temperature 1 are also the log-probabilities of
    ``prompt_targets_R``, in the order of the order's, and of the pairs of ``prompt_draws_R``.
    ``cached_tokens`` of the prompt were taken from the engine's prefix cache.
    """

    answers: tuple[Delta, ...]
    prompt_logprobs_P: tuple[dict[int, float], ...] = ()
    prompt_targets_R: tuple[tuple[float, ...], ...] = ()
    prompt_draws_R: tuple[tuple[tuple[int, float], ...], ...] = ()
    cached_tokens: int = 0


class SamplerEngine(EngineProcess, Protocol):
    """An engine that samples from one base model and from any number of adapters on it, side by
    side.

    ``folder`` is an adapter's, as PEFT writes it, or a Hugging Face folder whose weights stand in
    for the base's; without one the base model samples. Of weights that are not the base's the
    engine holds one set at a time: orders for other weights wait for their turn.
    """

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        ...

    @property
    def waiting(self) -> str:
        """Why orders wait that could be under way, in words for their clients; empty when none
        does.
        """
        ...

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        """Cancelling it aborts it inside the engine. Raises EngineDead, RequestRefused."""
        ...

    def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        folder: Path | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion. Closing the iterator cancels it. Raises EngineDead,
        RequestRefused.
        """
        ...
