"""What the engine is asked for, from what a Tinker client asks for."""

import hashlib
from pathlib import Path
from typing import Any

from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.requests import Prompt, Sample
from gpu_runtime.gateway.tinker.samples import prompt_targets
from gpu_runtime.interfaces import SampleOrder, SamplerEngine, SamplingOptions

SEEDS = 2**62  # room to count up in 63 bits


def order_of(
    sample: Sample, folder: Path | None, engine: SamplerEngine, *, exact_seeds: bool = False
) -> SampleOrder:
    """What the engine is asked for. Raises UserMistake for what cannot be done, by name."""
    prompt = _prompt_ids(sample.prompt, engine.vocabulary_size)
    options, room = sample.sampling_params, engine.context_length - len(prompt)
    if room < 1:
        raise UserMistake(
            f"the prompt has {len(prompt)} tokens, and prompt and answer have room for "
            f"{engine.context_length}"
        )
    if options.max_tokens is not None and options.max_tokens > room:
        raise UserMistake(
            f"the prompt has {len(prompt)} tokens and max_tokens is {options.max_tokens}: together "
            "they may have"
            f" {engine.context_length}"
        )
    last_n = sample.prompt_logprobs_last_n
    if last_n is not None and not (sample.prompt_logprobs and last_n < len(prompt)):
        raise UserMistake(
            "prompt_logprobs_last_n goes with prompt_logprobs and is at most the prompt's length "
            "less one"
        )
    strings, token_ids = _stops(options.stop, engine.vocabulary_size)
    targets = prompt_targets.rows_read(sample, len(prompt), engine.vocabulary_size)
    scored = bool(sample.prompt_logprobs) or sample.topk_prompt_logprobs > 0
    seed = options.seed
    if seed is not None and exact_seeds and not 0 <= seed < SEEDS:
        raise UserMistake(f"seed is {seed}; a seed that is taken as it is, is 0 to {SEEDS - 1}")
    if seed is not None and not exact_seeds:
        seed = seed_mix(sample.sampling_session_id, sample.seq_id, seed)
    asked = SamplingOptions(
        max_tokens=max(1, room if options.max_tokens is None else options.max_tokens),
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=max(0, options.top_k or 0),
        seed=seed,
        stop=strings,
        stop_token_ids=token_ids,
        ignore_eos=options.stop == [],
        top_logprobs=sample.topk_sample_logprobs,
        prompt_logprobs=sample.topk_prompt_logprobs if scored else None,
    )
    return SampleOrder(
        prompt, asked, sample.num_samples, targets, sample.prompt_alt_tokens_k, folder
    )


def seed_mix(sampling_session_id: str, seq_id: int, seed: int) -> int:
    """The seed of the first sample of a request; later ones count up from it.

    A client that sends one seed with every request must still get different answers to equal
    prompts.
    """
    digest = hashlib.sha256(f"{sampling_session_id}|{seq_id}|{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def _prompt_ids(prompt: Prompt, vocabulary_size: int) -> tuple[int, ...]:
    ids: list[int] = []
    for chunk in prompt.chunks:
        if chunk.tokens is None:
            raise UserMistake(
                f"prompt has a chunk of kind {chunk.type!r}: this server reads text alone"
            )
        ids += chunk.tokens
    if not ids:
        raise UserMistake("the prompt has no token")
    wrong = next((token for token in ids if not 0 <= token < vocabulary_size), None)
    if wrong is not None:
        raise UserMistake(
            f"the prompt has token {wrong}; this model's tokens are 0 to {vocabulary_size - 1}"
        )
    return tuple(ids)


def _stops(stop: Any, vocabulary_size: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    given = [stop] if isinstance(stop, str) else stop or []
    distinct = dict.fromkeys(given)  # a list of any length is as long as the body may be
    strings = tuple(each for each in distinct if isinstance(each, str))
    token_ids = tuple(each for each in distinct if isinstance(each, int))
    if "" in strings:
        raise UserMistake("stop has an empty string")
    if any(not 0 <= token < vocabulary_size for token in token_ids):
        raise UserMistake(f"stop has a token outside 0 to {vocabulary_size - 1}")
    return strings, token_ids
