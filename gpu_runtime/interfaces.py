"""Engine and tokenizer as their callers see them (the trainer: model_interfaces.py). Each has a
real part that needs torch, and a light one in tests/support.

Shape legend: T tokens of one sequence. P tokens of a prompt, R its rows: the places of its tokens
but the first.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class SamplingOptions:
    """How to sample one completion. ``top_logprobs`` asks for that many alternatives per token (0:
    none).

    Example: SamplingOptions(max_tokens=16, temperature=1.0, stop=("\\n",), seed=7)
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int = 0
    # a JSON schema that the answer must satisfy; "{}" means any JSON object
    json_schema: str | None = None
    # a grammar that it must follow, in xgrammar's JSON form; not with json_schema
    structural_tag: str | None = None
    top_k: int = 0  # 0: every token
    min_p: float = 0.0  # of the most likely token's probability
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token id: added to its logit
    min_tokens: int = 0  # before these an end of turn and ``stop_token_ids`` cannot be sampled
    # end the answer; the one that did is its last id and no part of its text
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    # alternatives per prompt token (0: its own alone); None asks for nothing
    prompt_logprobs: int | None = None
    # asks for ``Delta.allowed_T``, ``raw_logprobs_T`` and ``experts_T``: the call may be trained
    for_training: bool = False
    # calls of one episode are best served by one engine, which has its prefix ("": of none)
    episode_id: str = ""


@dataclass(frozen=True)
class Delta:
    """A piece of a completion as the engine makes it; ``finish_reason`` ("stop" or "length") is set
    on the last.

    ``token_ids_T`` is what was sampled, the end-of-turn token included when it was sampled.
    ``logprobs_T`` are natural logarithms of the distribution that each was sampled from: after
    biases and penalties, temperature, top_p, top_k and min_p, and the tokens that a schema or a
    grammar allows. At temperature 0 they are those of temperature 1. ``prompt_logprobs_P`` (first
    delta alone, where asked for) holds of each prompt token its own log-probability at temperature
    1 and those of the alternatives; of the first token nothing. ``raw_logprobs_T`` (where asked
    for) are those before any of that; empty where nothing changes them. ``allowed_T`` (where asked
    for, of calls under a grammar or ``min_tokens``) is what each token was chosen from: a set of
    journal/token_values.py, None for every id. ``experts_T`` (where asked for, of a mixture whose
    engine records them) are rows of journal/token_values.py. ``cached_tokens`` of the prompt were
    taken from the engine's prefix cache. ``text`` is their readable part (no special tokens,
    nothing after a stop string). ``version`` is the policy version whose weights sampled them.
    """

    text: str
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    version: int
    finish_reason: str | None = None
    top_logprobs_T: tuple[dict[int, float], ...] = ()
    stop_reason: str | None = None  # the stop string that ended it, if one did
    prompt_logprobs_P: tuple[dict[int, float], ...] = ()
    allowed_T: tuple[bytes | None, ...] = ()
    raw_logprobs_T: tuple[float, ...] = ()
    experts_T: tuple[bytes | None, ...] = ()
    cached_tokens: int = 0


class TokenSource(Protocol):
    """What a call needs of an engine: one model that generates from token ids."""

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        ...

    def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion. Closing the iterator cancels it. Raises EngineDead,
        RequestRefused.
        """
        ...


class EngineProcess(TokenSource, Protocol):
    """An engine in processes of its own."""

    @property
    def dead(self) -> bool:
        """Whether a process of the engine has ended: it serves nothing any more."""
        ...

    @property
    def ending(self) -> str:
        """How the process of one that is dead ended, in words, such as "was killed"."""
        ...

    async def close(self) -> None:
        """End every process of the engine. Safe to call twice."""
        ...


class Engine(EngineProcess, Protocol):
    """Generates from token ids. One model, whose weights change between calls, or between two
    tokens of a call whose session allows staleness, never within a token.
    """

    version: int  # policy version being served

    @property
    def shares_device(self) -> bool:
        """Whether it shares a device with the trainer, so that it must sleep while a step runs."""
        ...

    async def load_weights(self, folder: Path, version: int) -> None:
        """Take the weights that the trainer left in ``folder`` (Hugging Face names) and serve them
        as ``version``.
        """
        ...

    async def sleep(self) -> None:
        """Free the memory of its device: calls in flight end first or are kept, and go on after
        ``wake``; later ones wait. Raises EngineDead.
        """
        ...

    async def wake(self) -> None:
        """Serve again, with the weights as they were. Raises EngineDead."""
        ...


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


class Tokenizer(Protocol):
    """The model's own tokenizer and chat template."""

    size: int  # how many token ids there are
    longest_token: int  # characters of the longest token
    special_ids: frozenset[int]  # of tokens that are marks (such as an end of turn) and no text
    template_variables: frozenset[str]  # what the chat template reads beside the conversation
    # the chat template and the special tokens by name, such as ``eos_token``
    described: Mapping[str, str | None]
    added: Mapping[str, str]  # tokens that stand for themselves, with a pattern of their letters

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of ``text``. ``special`` adds what the tokenizer puts around plain text (such as a
        begin of text).
        """

    def encode_text(self, text: str) -> list[int]:
        """Ids of ``text`` in which none of ``added`` stands for itself."""

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        """Text of ids, with or without special tokens."""

    def entry(self, token_id: int) -> str:
        """The token as the vocabulary names it."""

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        *,
        generation: bool,
        variables: Mapping[str, Any],
        now: datetime,
    ) -> str:
        """The conversation as the chat template writes it; ``generation`` opens the assistant's
        turn. A template that writes the date writes that of ``now``.

        Raises jinja2.TemplateError, TypeError or ValueError for messages that the template cannot
        write.
        """
        ...
