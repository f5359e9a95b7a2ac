"""The three seams of a runtime. Each has a real part that needs torch and a hand-written fake in tests/.

Shape legend: T tokens of one sequence, G episodes of one group.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class SamplingOptions:
    """How to sample one completion. ``top_logprobs`` asks for that many alternatives per token (0: none).

    Example: SamplingOptions(max_tokens=16, temperature=1.0, stop=("\\n",), seed=7)
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int = 0
    json_schema: str | None = None  # a JSON schema that the answer must satisfy; "{}" means any JSON object


@dataclass(frozen=True)
class Delta:
    """A piece of a completion as the engine makes it; ``finish_reason`` ("stop" or "length") is set on the last.

    ``token_ids_T`` and ``logprobs_T`` are what was sampled, the end-of-turn token included when it was sampled;
    ``text`` is their readable part (no special tokens, nothing after a stop string). ``version`` is the policy
    version whose weights sampled them.
    """

    text: str
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    version: int
    finish_reason: str | None = None
    top_logprobs_T: tuple[dict[int, float], ...] = ()
    stop_reason: str | None = None  # the stop string that ended it, if one did


class Engine(Protocol):
    """Generates from token ids. One model, whose weights change between calls, never within a token."""

    version: int  # policy version being served
    context_length: int
    dead: bool  # a process of the engine has ended; it serves nothing any more

    def generate(self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions) -> AsyncIterator[Delta]:
        """Stream one completion. Closing the iterator cancels it. Raises EngineDead."""
        ...

    async def load_weights(self, folder: Path, version: int) -> None:
        """Take the weights in ``folder`` (safetensors, Hugging Face names) in place and serve them as ``version``."""
        ...

    async def close(self) -> None:
        """End every process of the engine. Safe to call twice."""
        ...


@dataclass(frozen=True)
class Sample:
    """One trainable token sequence (a timeline of an episode).

    ``mask_T`` is 1 on tokens that the engine sampled and this sample trains, 0 elsewhere; ``logprobs_T`` are the
    engine's, 0.0 where the mask is 0. ``advantage`` is that of all its trained tokens; where the calls that merged into
    it earned differently, ``advantages_T`` holds each token's own (0.0 where the mask is 0) and ``advantage`` is their
    mean. ``weight`` scales its loss so that an episode with many timelines counts once. All lists have the same
    length T.

    Example: Sample((1, 5, 9), (0, 0, 1), (0.0, 0.0, -0.3), advantage=1.2, weight=1.0, group=0)
    """

    token_ids_T: tuple[int, ...]
    mask_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    advantage: float
    weight: float = 1.0
    group: int = 0
    advantages_T: tuple[float, ...] | None = None

    @property
    def says_something(self) -> bool:
        """Whether a token has an advantage, so that there is a gradient."""
        return any(self.advantages_T) if self.advantages_T is not None else self.advantage != 0.0

    def advantage_at(self, position: int) -> float:
        """The advantage of the token at ``position``."""
        return self.advantage if self.advantages_T is None else self.advantages_T[position]


class Trainer(Protocol):
    """Full-weight training on one or more ranks. Calls never overlap; each has a deadline inside."""

    dead: bool  # a rank has ended

    async def forward_backward(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Accumulate the gradient of the session's loss over ``samples``; answers its metrics. Raises TrainerFailed."""
        ...

    async def optim_step(self, step: int) -> dict[str, float]:
        """Apply the accumulated gradient as step number ``step`` (1-based). A NaN or infinite gradient is refused."""
        ...

    async def publish(self, folder: Path) -> None:
        """Write the current weights to ``folder`` for the engine (safetensors, Hugging Face names)."""
        ...

    async def export_model(self, folder: Path) -> None:
        """Write a complete Hugging Face folder: weights, config, tokenizer."""
        ...

    async def save_state(self, folder: Path) -> None:
        """Write everything that resuming bit for bit needs: weights, optimizer, schedule, step."""
        ...

    async def load_state(self, folder: Path) -> None:
        """Become what ``save_state`` wrote."""
        ...

    async def close(self) -> None:
        """End every rank. Safe to call twice."""
        ...
