"""What is said of steps that teach nothing or less and less: the words of events. No torch in here."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runtime.training.batching import Group

STEPS_UNTIL_ADVICE = 3
FIRST_STEPS = 3  # their mean entropy is what the policy began with
ENTROPY_LEFT = 0.1  # of that
DISTINCT_LEFT = 0.1  # of the pairs of answers that could differ
MORE_SPREAD = (
    "Raise the temperature, choose harder tasks where all succeed and easier ones where all fail, reward parts of the"
    " way, or raise grpo_n."
)


def nothing_to_learn(step: int, total: int, groups: Sequence[Group]) -> dict[str, Any]:
    """The event about ``total`` groups in a row without a gradient; ``groups`` are the last of them."""
    mean = statistics.fmean(episode.reward for group in groups for episode in group.episodes)
    return {
        "name": "nothing_to_learn",
        "step": step,
        "groups": total,
        "reward_mean": mean,
        "reason": f"{total} groups in a row had equal rewards (of late {mean:g}): no gradient, and no step was counted",
        "hint": MORE_SPREAD,
    }


def kl_alone(step: int, last: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The event about steps that only a KL term made: every group of the last STEPS_UNTIL_ADVICE was level.

    ``last``: the metrics of one step more than that, where there was one; the event comes once for a row of such steps.
    """
    level = [metrics.get("groups_skipped", 0) == metrics.get("groups") for metrics in last]
    before, row = level[:-STEPS_UNTIL_ADVICE], level[-STEPS_UNTIL_ADVICE:]
    if len(row) < STEPS_UNTIL_ADVICE or not all(row) or any(before):
        return []
    groups, mean = sum(metrics["groups"] for metrics in last[-len(row) :]), last[-1]["reward_mean"]
    reason = f"{groups} groups in a row had equal rewards (of late {mean:g}): of {len(row)} steps the KL term is all"
    found = {"name": "nothing_to_learn", "step": step, "groups": groups, "reward_mean": mean}
    return [found | {"reason": reason, "hint": MORE_SPREAD}]


def watched_steps(step: int) -> list[int]:
    """The steps whose metrics ``collapse`` wants: the first ones, and the last ones up to ``step``."""
    last = range(max(FIRST_STEPS + 1, step - STEPS_UNTIL_ADVICE), step + 1)
    return [*range(1, FIRST_STEPS + 1), *last]


def collapse(step: int, history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The events of a policy that has just lost its entropy or the spread of its answers, at most one of each kind.

    Just: so for the last STEPS_UNTIL_ADVICE steps, and not for the one before them.
    """
    first, last = history[:FIRST_STEPS], history[FIRST_STEPS:]
    if len(last) <= STEPS_UNTIL_ADVICE:
        return []
    began = statistics.fmean(metrics["entropy"] for metrics in first)
    low = [metrics["entropy"] < ENTROPY_LEFT * began for metrics in last]
    alike = [(1.0 if (share := m.get("answers_distinct")) is None else share) < DISTINCT_LEFT for m in last]
    found = []
    if all(low[1:]) and not low[0]:
        now = last[-1]["entropy"]
        reason = f"the entropy of the policy fell to {now:.2g} nats; it began with {began:.2g}"
        hint = "Lower learning_rate, add entropy_coef or entropy_target, or raise the temperature."
        found.append({"name": "entropy_collapse", "step": step, "entropy": now, "reason": reason, "hint": hint})
    if all(alike[1:]) and not alike[0]:
        reason = f"nearly all answers of each group are the same ({last[-1]['answers_distinct']:.0%} differ)"
        hint = "Stop here if the reward is good; else raise the temperature, lower learning_rate or add a KL term."
        found.append({"name": "answers_collapse", "step": step, "reason": reason, "hint": hint})
    return found
