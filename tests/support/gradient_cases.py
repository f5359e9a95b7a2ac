"""Configurations of a session whose gradient is compared with another computation of it, and the
samples of each.
"""

import dataclasses
import random

from gpu_runtime.loop.sample import Sample
from support.plain_losses import OWN_OPTIONS, SESSION_LOSSES
from tinkerscript.wire.training.losses import LOSSES

# no clip that a gradient meets, and the policy loss alone
PLAIN = {"grad_clip": 1e9, "grad_norm_limit": 1e9, "kl_coef": 0.0}
# a first step moves the policy off its reference by this rate
KL = {"kl_coef": 0.3, "learning_rate": 3e-3}
# Bounds that cut some of the tokens: a mean over a sequence moves less than a token.
CLIP = {"clip_low": 0.05, "clip_high": 0.06}
OWN_CLIPS = {"gspo": {"clip_low": 0.005, "clip_high": 0.006}}
CONFIGS = {
    **{name: {"loss": name, "max_tokens": 32} for name in SESSION_LOSSES},
    **{
        f"later {name}": {"loss": name, "epochs": 2, "max_tokens": 32}
        | OWN_OPTIONS.get(name, {})
        | (OWN_CLIPS.get(name, CLIP) if LOSSES[name].clip else {})
        for name in SESSION_LOSSES
    },
    "grpo with KL": KL,
    "tempered": KL,
    "truncated": {"engine_correction": {"weight_high": 1.1}},
    "truncated sequences": {
        "engine_correction": {"weight": "sequence", "weight_low": 0.9, "weight_high": 1.1}
    },
    "truncated means": {
        "loss": "cispo",
        "engine_correction": {"weight": "geometric", "weight_high": 1.01},
    },
    "masked": {
        "loss": "gspo",
        "engine_correction": {"weight": "none", "mask_low": 0.9, "mask_high": 1.1},
    },
    "vetoed": {"loss": "dro", "engine_correction": {"veto": 0.75}},
    "later dual clip": {
        "loss": "grpo",
        "epochs": 2,
        "clip_low": 0.02,
        "clip_high": 0.02,
        "dual_clip": 1.05,
    },
    "two references": {**KL, "reference_decay": 0.6, "kl_base_coef": 0.2},
    "k2": {**KL, "kl_estimator": "k2"},
    "entropy": {"entropy_coef": 0.2},
    "tempered entropy": {"entropy_coef": 0.2},
    "LoRA": {"lora_rank": 4, "lora_alpha": 8},
    "LoRA with KL": {**KL, "lora_rank": 4},
    "small rows": {"micro_batch_tokens": 64},
    "checkpointing": {"gradient_checkpointing": True},
    "bfloat16, ZeRO 1": {"dtype": "bfloat16", "zero_stage": 1, "micro_batch_tokens": 64},
    "bfloat16, ZeRO 2": {"dtype": "bfloat16", "zero_stage": 2, "micro_batch_tokens": 64},
}


def _drawn_samples() -> list[Sample]:
    """Three groups of four episodes; every third episode has two timelines; log-probabilities near
    the model's own.
    """
    rng = random.Random(5)
    samples = []
    for group in range(3):
        prompt = [rng.randrange(2, 90) for _ in range(20)]
        for member in range(4):
            advantage = rng.uniform(-1.5, 1.5)
            timelines = 2 if member == 2 else 1
            for _ in range(timelines):
                turns = [
                    [rng.randrange(2, 90) for _ in range(rng.randrange(3, 7))] for _ in range(3)
                ]
                ids = prompt + turns[0] + turns[1] + turns[2]
                mask = [0] * 20 + [1] * len(turns[0]) + [0] * len(turns[1]) + [1] * len(turns[2])
                logprobs = tuple(rng.uniform(-4.9, -4.3) * m for m in mask)
                samples.append(
                    Sample(tuple(ids), tuple(mask), logprobs, advantage, 1 / timelines, group)
                )
    return samples


def _tempered(samples: list[Sample]) -> list[Sample]:
    """The same tokens, sampled at 0.3 to 2: the two answers of a timeline at different
    temperatures.
    """
    rng = random.Random(6)
    drawn = []
    for sample in samples:
        first, second = (0.3 + 1.7 * rng.random() for _ in range(2))
        half = len(sample.mask_T) // 2 + 10
        by_token = tuple(
            (first if t < half else second) if m else 1.0 for t, m in enumerate(sample.mask_T)
        )
        drawn.append(dataclasses.replace(sample, temperatures_T=by_token))
    return drawn


SAMPLES = _drawn_samples()
TEMPERED = _tempered(SAMPLES)


def _later(samples: list[Sample]) -> list[Sample]:
    """As a second update has them: the policy before the step is not the engine's."""
    rng = random.Random(7)
    return [
        dataclasses.replace(
            s, before_T=tuple(v + rng.uniform(-0.1, 0.1) if v else 0.0 for v in s.logprobs_T)
        )
        for s in samples
    ]


LATER = _later(SAMPLES)


def samples_of(name: str) -> list[Sample]:
    """What the configuration ``name`` is trained on."""
    if name.startswith("later"):
        return LATER
    return TEMPERED if name.startswith("tempered") else SAMPLES
