"""What an option that was not given means for one model and one loss: the effective configuration
has no such gap.
"""

from tinkerscript.wire.config import SessionConfig

from .losses import clip_of

# (up to so many weights, AdamW's rate). The larger a model, the smaller the change of each weight
# that moves its answers as far: 2e-5 learns on 135M weights in a few steps; 1e-6 is what TRL's
# GRPOConfig and verl have for 7B.
RATES_BY_SIZE = ((500_000_000, 2e-5), (2_000_000_000, 5e-6), (5_000_000_000, 2e-6))
RATE_OF_LARGE = 1e-6
# Schulman et al. 2025, "LoRA Without Regret": the best rate of adapters is about ten times that of
# all weights.
LORA_FACTOR = 10.0
# which config_resolve fills in, the first from the model and the others from the loss
DECIDED = ("learning_rate", "clip_low", "clip_high", "normalize_advantage")


def learning_rate_default(parameters: int, *, lora: bool) -> float:
    """The rate for a model of so many weights."""
    rate = next((rate for most, rate in RATES_BY_SIZE if parameters <= most), RATE_OF_LARGE)
    return rate * LORA_FACTOR if lora else rate


def config_resolve(config: SessionConfig, parameters: int | None) -> SessionConfig:
    """``config`` with its learning rate, the bounds of its clip and the division of its advantages
    filled in.

    ``parameters`` is the model's size; where it is None the rate stays open, and the trainer, which
    counts, fills it.
    """
    found: dict[str, float | bool | None] = {}
    if config.learning_rate is None and parameters:
        found["learning_rate"] = learning_rate_default(parameters, lora=config.lora_rank > 0)
    found["normalize_advantage"] = config.divides_by_spread
    if config.has_many_updates:  # the ratio of a single one is 1
        clip = clip_of(config.loss, config.clip_low, config.clip_high)
        found["clip_low"], found["clip_high"] = clip
    return config.model_copy(update=found)


def options_decided(config: SessionConfig, parameters: int | None) -> list[str]:
    """The options of an effective configuration that its model or its loss decides, and that have
    the value which they get where they are left out: another model or loss would have another.

    ``parameters`` as for ``config_resolve``; where it is None the rate counts as given.
    """
    left_out = config.model_copy(update=dict.fromkeys(DECIDED))
    decided = config_resolve(left_out, parameters)
    return [
        name
        for name in DECIDED
        if getattr(config, name) is not None and getattr(config, name) == getattr(decided, name)
    ]
