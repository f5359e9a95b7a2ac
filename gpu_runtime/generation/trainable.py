"""What a training episode may ask of sampling: distributions whose log-probabilities the trainer
computes exactly.

Temperature divides the logits, in the engine and in the trainer. What else changes the distribution
(a truncation, a penalty, a bias) is known to the engine alone, and is for episodes that are
evaluated. What only ends an answer (stop_token_ids, ignore_eos) changes no log-probability. Of what
forbids tokens (a grammar, min_tokens) the ids that it left are recorded with each token
(engine/grammars/allowed_recorder.py), and the trainer renormalises over them.
"""

from typing import Any

from gpu_runtime.generation.requests import SampledRequest
from gpu_runtime.refusals import BadRequest
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
            hint="Leave temperature at 1, or begin the episode with eval=True. In Aider: "
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
