"""When an option has an effect beside the others: one that has none must keep its default, and is
refused by its name. And which values contradict the others.

Each rule sees the fields declared above its own in SessionConfig: those are the ones that have been
checked by then. A field that was refused itself is not among them, and no rule is broken by its
absence: one mistake is reported once. Where another option is why it was refused,
its value is known all the same, and what that breaks is said at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .losses import CLIPPED_LOSSES, LOSSES, RATIO_LOSSES, SURROGATE_LOSSES

Given = Mapping[str, Any]
# (whether the option has an effect, in which case in words)
Rule = tuple[Callable[[Given], bool], str]


def has_many_updates(given: Given) -> bool:
    """Whether a batch gets more than one optimizer update; so where one of the two was refused."""
    return given.get("minibatches", 2) * given.get("epochs", 2) > 1


def _loss_in(losses: tuple[str, ...]) -> Rule:
    return (
        lambda given: given.get("loss", losses[0]) in losses,
        f"only with loss {', '.join(losses)}",
    )


def _is_in_loss(given: Given) -> bool:
    """Whether the KL term is in the loss; in the reward where ``kl_in`` was refused for want of a
    ``kl_coef``.
    """
    return given.get("kl_in", "loss" if given.get("kl_coef", 1) > 0 else "reward") == "loss"


def _baseline_is_of_groups(given: Given) -> bool:
    """Not batch, nor refused beside ``dynamic_sampling``, as batch alone is."""
    refused = "batch" if given.get("dynamic_sampling") else "group"
    return given.get("advantage_baseline", refused) != "batch"


def _has_no_adapters(given: Given) -> bool:
    """No ``lora_rank``, nor one refused beside ``reference_decay``, as one above 0 alone is."""
    refused = 0 if given.get("reference_decay") is None else 1
    return given.get("lora_rank", refused) == 0


# The first update's ratio to the trainer's own policy before the step is 1, which no clip cuts.
_RATIO_MOVES: Rule = (
    has_many_updates,
    "only with minibatches or epochs above 1: the ratio of a single update, to the trainer's own "
    "policy, is 1; engine_correction bounds what the engine or older weights make of a token",
)
_HAS_KL: Rule = (lambda given: given.get("kl_coef", 1) > 0, "only with a kl_coef above 0")
_HAS_ADAPTERS: Rule = (lambda given: given.get("lora_rank", 1) > 0, "only with a lora_rank above 0")

RULES: dict[str, tuple[Rule, ...]] = {
    "lr_min_ratio": (
        (
            lambda given: given.get("lr_schedule") != "constant",
            "only with lr_schedule linear or cosine, which end at max_steps",
        ),
    ),
    "kl_stop": ((has_many_updates, "only with minibatches or epochs above 1"),),
    "engine_correction": (_loss_in(RATIO_LOSSES),),
    "clip_low": (_loss_in(CLIPPED_LOSSES), _RATIO_MOVES),
    "clip_high": (_loss_in(CLIPPED_LOSSES), _RATIO_MOVES),
    "dual_clip": (_loss_in(SURROGATE_LOSSES), _RATIO_MOVES),
    "dro_beta": (_loss_in(("dro",)), _RATIO_MOVES),
    "kl_in": (_HAS_KL,),
    "kl_estimator": (
        _HAS_KL,
        (
            _is_in_loss,
            "only with kl_in loss: in a reward it is k1, without bias",
        ),
    ),
    "reference_decay": (
        (
            _HAS_KL[0],
            "only with a kl_coef above 0 and lora_rank 0, without adapters",
        ),
    ),
    "kl_base_coef": (
        _HAS_KL,
        (
            lambda given: given.get("reference_decay", 0.5) is not None,
            "only with reference_decay, and so lora_rank 0: without it the reference of kl_coef is "
            "the base model",
        ),
        (_is_in_loss, "only with kl_in loss"),
    ),
    "sequence_parallel": (
        (
            lambda given: given.get("trainer_ranks", 2) > 1,
            "only with trainer_ranks above 1, which share a row",
        ),
    ),
    "offload_activations": (
        (
            lambda given: given.get("gradient_checkpointing", True),
            "only with gradient_checkpointing",
        ),
    ),
    "keep_n": (
        (
            _baseline_is_of_groups,
            "only with advantage_baseline group or leave_one_out",
        ),
        (
            _is_in_loss,
            "only with kl_in loss: the reference is not asked about attempts that are left out",
        ),
    ),
    "lora_alpha": (_HAS_ADAPTERS,),
    "lora_targets": (_HAS_ADAPTERS,),
    "router": (
        (
            _has_no_adapters,
            "only with lora_rank 0: adapters are on none",
        ),
    ),
}

# By name: (whether a value contradicts the others, why)
CONTRADICTIONS: dict[str, tuple[Callable[[Any, Given], bool], str]] = {
    "loss": (
        lambda value, given: not LOSSES[value].has_ratio and given.get("max_staleness", 0) > 0,
        "not cross_entropy with max_staleness above 0: it has no ratio that weighs tokens of older "
        "weights; take importance_sampling",
    ),
    "grad_norm_limit": (
        lambda value, given: value < given.get("grad_clip", 0.0),
        "must not be below grad_clip: every gradient that the clip is for would be refused",
    ),
    "minibatches": (
        lambda value, given: value > given.get("tasks_per_batch", value),
        "must not be above tasks_per_batch: each update takes whole groups",
    ),
    "engine_correction": (
        lambda value, given: value.weight == "none" and given.get("max_staleness", 0) > 0,
        "must have a weight (token, sequence or geometric) with max_staleness above 0: nothing "
        "else weighs tokens of older weights",
    ),
    "keep_n": (
        lambda value, given: value is not None and value >= given.get("grpo_n", value + 1),
        "must be below grpo_n: of so many attempts the others are left out",
    ),
    "advantage_baseline": (
        lambda value, given: value == "batch" and given.get("dynamic_sampling", False),
        "not batch with dynamic_sampling, which looks at each group by itself",
    ),
    "lora_rank": (
        lambda value, given: value > 0 and given.get("reference_decay") is not None,
        "not with reference_decay: the reference of adapters is the base model under them",
    ),
    "nodes": (
        lambda value, given: given.get("trainer_ranks", value) % value != 0,
        "must divide trainer_ranks: each machine has the same number of ranks",
    ),
    "overlong_buffer": (
        lambda value, given: value > given.get("max_tokens", value),
        "must not be above max_tokens, whose last part it is",
    ),
}


def problem_of(name: str, value: Any, given: Given, *, is_default: bool) -> str | None:
    """Why the option ``name`` cannot be ``value`` beside ``given``, with all that it needs in one
    sentence; None where it can. A default has no need of an effect: a stored configuration holds
    every field.
    """
    found: list[str] = []
    contradicts, why = CONTRADICTIONS.get(name, (None, ""))
    if contradicts is not None and contradicts(value, given):
        found.append(why)
    needs = [when for is_useful, when in RULES.get(name, ()) if not is_useful(given)]
    if needs and not is_default:
        found.append(f"has an effect {', and '.join(needs)}")
    return "; ".join(found) or None
