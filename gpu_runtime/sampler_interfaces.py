"""The engine that samples for Tinker clients, as its callers see it. No torch in here.

Shape legend: T tokens of an answer, P tokens of a prompt, R its rows: the places of its tokens but the first.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpu_runtime.interfaces import Delta, SamplingOptions


@dataclass(frozen=True)
class SampleOrder:
    """What a Tinker client asks of an engine at once: ``num_samples`` answers to one prompt, and scores of the prompt.

    ``adapter`` is a PEFT folder, ``weights`` a Hugging Face folder whose weights stand in for the base's; without
    either the base model samples. ``stop_token_ids`` end an answer beside the end of turn, which ``ignore_end`` takes
    away. ``prompt_top`` scores the prompt, with so many alternatives for each token (None: it does not).
    ``prompt_targets_R`` are tokens to be scored at each place after the first (empty: none anywhere), and
    ``prompt_draws`` so many tokens are drawn at each of them, at ``temperature`` alone.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    num_samples: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_end: bool = False
    top_logprobs: int = 0
    prompt_top: int | None = None
    prompt_targets_R: tuple[tuple[int, ...], ...] = ()
    prompt_draws: int = 0
    adapter: Path | None = None
    weights: Path | None = None


@dataclass(frozen=True)
class SampledAnswer:
    """One answer. ``token_ids_T`` has the token, or the tokens of the string, that stopped it at its end.

    ``logprobs_T`` are of the distribution that was sampled from. ``top_T`` are pairs of id and log-probability.
    """

    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    is_stopped: bool
    top_T: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True)
class SampleOutcome:
    """The answers to a SampleOrder. ``prompt_logprobs_P`` are of temperature 1 and None for the first token; so are the
    log-probabilities of ``prompt_targets_R``, in the order of the order's, and of the pairs of ``prompt_draws_R``.
    ``cached_tokens`` of the prompt were taken from the engine's prefix cache."""

    answers: tuple[SampledAnswer, ...]
    prompt_logprobs_P: tuple[float | None, ...] | None = None
    prompt_top_P: tuple[tuple[tuple[int, float], ...], ...] = ()
    prompt_targets_R: tuple[tuple[float, ...], ...] = ()
    prompt_draws_R: tuple[tuple[tuple[int, float], ...], ...] = ()
    cached_tokens: int = 0


class SamplerEngine(Protocol):
    """An engine that samples from one base model and from any number of adapters on it, side by side.

    Of weights that are not the base's it holds one set at a time: orders for other weights wait for their turn.
    """

    @property
    def context_length(self) -> int:
        """Prompt plus answer, in tokens."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        ...

    @property
    def dead(self) -> bool:
        """Whether a process of the engine has ended."""
        ...

    @property
    def ending(self) -> str:
        """How the process of one that is dead ended, in words, such as "was killed"."""
        ...

    @property
    def waiting(self) -> str:
        """Why orders wait that could be under way, in words for their clients; empty when none does."""
        ...

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        """Cancelling it aborts it inside the engine. Raises EngineDead, RequestRefused."""
        ...

    def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        *,
        adapter: Path | None,
        weights: Path | None,
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion; the folders are those of a SampleOrder. Closing the iterator cancels it.

        Raises EngineDead, RequestRefused.
        """
        ...

    async def close(self) -> None:
        """End every process of the engine. Safe to call twice."""
        ...
