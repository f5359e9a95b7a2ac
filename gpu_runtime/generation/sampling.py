"""What chat and text completions share on the way to the engine and back: options of sampling,
which of them a training episode may have, what was sampled.

A training episode has distributions whose log-probabilities the trainer computes exactly.
Temperature divides the logits, in the engine and in the trainer. What else changes the distribution
(a truncation, a penalty, a bias) is known to the engine alone, and is for episodes that are
evaluated. What only ends an answer (stop_token_ids, ignore_eos) changes no log-probability. Of what
forbids tokens (a grammar, min_tokens) the ids that it left are recorded with each token
(engine/grammars/allowed_recorder.py), and the trainer renormalises over them.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from gpu_runtime.generation.requests import SampledRequest
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal.records import Completion
from gpu_runtime.refusals import BadRequest, CallFailed
from tinkerscript.wire.config import SessionConfig

# Rounding of logits grows as 1 / T: below this the gap between engine and trainer passes the
# mismatch bound.
MIN_TEMPERATURE = 0.1
# Options that change the distribution in ways that the trainer does not compute, with what to do
# instead.
UNTRAINABLE = {
    "top_p": "Leave top_p at 1 and lower the temperature instead",
    "top_k": "Leave top_k at -1 and lower the temperature instead",
    "min_p": "Leave min_p at 0 and lower the temperature instead",
    "frequency_penalty": "Leave it at 0, and let the reward punish repetition",
    "presence_penalty": "Leave it at 0, and let the reward punish repetition",
    "repetition_penalty": "Leave it at 1, and let the reward punish repetition",
    "logit_bias": "Leave it out; structured_outputs can forbid tokens in training",
}
OF_THE_DISTRIBUTION = (*UNTRAINABLE, "min_tokens")


def sampling_record(request: SampledRequest, config: SessionConfig) -> dict[str, Any]:
    """The options that change log-probabilities, and the limit of an answer, as they are kept with
    the call.
    """
    said = request.of_engine()
    longest = config.max_tokens if request.most_tokens is None else request.most_tokens
    return {
        "max_tokens": max(longest, said.get("min_tokens", 0)),
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        **{name: said[name] for name in OF_THE_DISTRIBUTION if name in said},
    }


def untrainable(sampling: dict[str, Any]) -> BadRequest | None:
    """The refusal of a call whose tokens could not be trained right; its ``param`` is why, its hint
    what to do.
    """
    if sampling["temperature"] < MIN_TEMPERATURE:
        return BadRequest(
            f"a training episode needs a temperature of {MIN_TEMPERATURE} or more, not "
            f"{sampling['temperature']:g}:"
            " greedy answers of a group are all equal and teach nothing",
            hint="Leave temperature at 1, in the call and in the session's options, or begin the "
            "episode with eval=True. In Aider: "
            "use_temperature: false in .aider.model.settings.yml; in gptme: TEMPERATURE=1.",
            param="temperature",
        )
    for name, advice in UNTRAINABLE.items():
        if name in sampling and not (name == "top_p" and sampling[name] == 1.0):
            return BadRequest(
                f"{name} is for eval episodes: the trainer cannot compute the log-probabilities of "
                "what it does to the"
                " distribution",
                hint=f"{advice}, or begin the episode with eval=True.",
                param=name,
                openai_code="unsupported_parameter",
            )
    return None


def sampling_options(
    request: SampledRequest, config: SessionConfig, *, room: int, identity: str, choice: int
) -> SamplingOptions:
    """The options that every kind of completion has. A context that ends before ``min_tokens`` ends
    the answer.
    """
    said = request.of_engine()
    least = said.get("min_tokens", 0)
    limit = min(
        room, max(config.max_tokens, least) if request.most_tokens is None else request.most_tokens
    )
    return SamplingOptions(
        **(said | {"min_tokens": min(least, limit)}),
        max_tokens=limit,
        temperature=config.temperature if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        stop=request.stops,
        seed=None if request.seed is None else mixed_seed(request.seed, identity, choice),
    )


def plain_completion(choice: int, deltas: Sequence[Delta]) -> Completion:
    """What was sampled, as plain text."""
    text = "".join(delta.text for delta in deltas)
    return Completion(
        choice=choice,
        token_ids_T=tuple(token for delta in deltas for token in delta.token_ids_T),
        logprobs_T=tuple(logprob for delta in deltas for logprob in delta.logprobs_T),
        versions_T=tuple(delta.version for delta in deltas for _ in delta.token_ids_T),
        text=text,
        finish_reason=deltas[-1].finish_reason if deltas else None,
        message={"role": "assistant", "content": text},
        stop_reason=deltas[-1].stop_reason if deltas else None,
        top_logprobs_T=tuple(top for delta in deltas for top in delta.top_logprobs_T),
        allowed_T=tuple(allowed for delta in deltas for allowed in delta.allowed_T),
        raw_logprobs_T=tuple(logprob for delta in deltas for logprob in delta.raw_logprobs_T),
        experts_T=_experts(deltas),
    )


def _experts(deltas: Sequence[Delta]) -> tuple[bytes | None, ...]:
    """Of each token, where any has some: what ends thoughts was sampled by none."""
    if not any(delta.experts_T for delta in deltas):
        return ()
    return tuple(
        each for delta in deltas for each in delta.experts_T or (None,) * len(delta.token_ids_T)
    )


def mixed_seed(seed: int, identity: str, choice: int) -> int:
    """A client's seed for one answer: clients that always send the same must not make a group's
    episodes equal.
    """
    digest = hashlib.sha256(f"{seed}|{identity}|{choice}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def stopped_by(request: SampledRequest, answer: Completion) -> str | int | None:
    """The stop string or the stop token that ended ``answer``, if one did."""
    last = answer.token_ids_T[-1:] if answer.finish_reason == "stop" else ()
    ended = next((token for token in last if token in (request.stop_token_ids or [])), None)
    return ended if answer.stop_reason is None else answer.stop_reason


def numbers_check(delta: Delta) -> None:
    """Raises CallFailed where the engine computed no number for a token: nothing of such a call is
    kept."""
    wrong = next(
        (lp for lp in (*delta.logprobs_T, *delta.raw_logprobs_T) if not math.isfinite(lp)), None
    )
    if wrong is not None:
        raise CallFailed(
            f"the engine computed {wrong} as the log-probability of a token that it sampled",
            hint="This call alone failed. If others do too, the weights hold no numbers: go back "
            "to a checkpoint.",
        )
