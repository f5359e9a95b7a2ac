"""What is said of groups without a gradient that were set aside, and of episodes that end without a
reward.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runtime.episodes.advice.steps import (
    DISTINCT_LEFT,
    MORE_SPREAD,
    STEPS_UNTIL_ADVICE,
    Event,
    Metrics,
    are_alike,
    cut_first,
)
from gpu_runtime.loop.batching import Group
from gpu_runtime.loop.measures import truncated_share

FIRST_BATCHES = 2  # a reward that cannot teach is said after so many
MOST_VALUES = 5  # that a sentence counts
CHECK_REWARD = (
    "Print the rewards of a few attempts at one task: they have to differ. A rule that no answer "
    "meets, or every"
    " answer, teaches nothing: reward parts of the way, or choose other tasks."
)
COLLAPSED = (
    "The policy has collapsed: go on from a checkpoint before it with a quarter of the "
    "learning_rate, a higher kl_coef or"
    " entropy_coef."
)
# answers of many words, of which a reward reads one, differ in the others
ONE_ANSWER = (
    "Compare the answers to two tasks: where what the reward reads of them is the same, one answer "
    f"has taken over. {COLLAPSED} Else: {MORE_SPREAD[0].lower() + MORE_SPREAD[1:]}"
)
NO_REWARD = (
    "The loop's own exceptions say why. A reward must be a finite number: NaN and infinity are "
    "refused, and the episode"
    " stays without an end."
)


def level_groups_events(
    step: int,
    spreads: Sequence[float],
    groups: Sequence[Group],
    seen: Mapping[float, int],
    steps: Sequence[Metrics],
    tasks_per_batch: int,
) -> list[Event]:
    """The events that the last ``groups`` give rise to, of as many as ``spreads`` that were set
    aside in a row.

    ``seen`` counts the rewards of those that this runtime saw. ``steps``: the metrics of the last
    STEPS_UNTIL_ADVICE steps before, or of as many as there were.
    """
    last = steps[-1] if steps else None
    total, before = len(spreads), len(spreads) - len(groups)
    found: list[Event] = []
    if last is None and before < FIRST_BATCHES * tasks_per_batch <= total:
        found.append(_reward_level(step, total, groups, seen))
    many = STEPS_UNTIL_ADVICE * tasks_per_batch
    is_alike = statistics.fmean(spreads[-many:]) < DISTINCT_LEFT
    was_told = len(steps) == STEPS_UNTIL_ADVICE and all(map(are_alike, steps))  # of the steps
    if is_alike and before < many <= total and not was_told:
        found.append(_alike(step, total))
    if total // many > before // many:
        found.append(_nothing_to_learn(step, spreads, groups, seen, last, is_alike=is_alike))
    return found


def rewards_text(seen: Mapping[float, int]) -> str:
    """ "24 times 0, 8 times 1", the most frequent first."""
    often = Counter(seen).most_common(MOST_VALUES)
    others = f", {len(seen) - MOST_VALUES} other values" if len(seen) > MOST_VALUES else ""
    return ", ".join(f"{count} times {value:g}" for value, count in often) + others


def no_reward(over: int, reasons: Mapping[str, int]) -> Event:
    """The event about ``over`` episodes in a row that were abandoned or expired, with their
    ``reasons``.
    """
    often = ", ".join(
        f"{count} {reason}" for reason, count in Counter(reasons).most_common(MOST_VALUES)
    )
    reason = (
        f"{over} episodes in a row are over without a reward ({often}): there is nothing to train"
    )
    return {"name": "no_reward", "episodes": over, "reason": reason, "hint": NO_REWARD}


def _reward_level(
    step: int, total: int, groups: Sequence[Group], seen: Mapping[float, int]
) -> Event:
    reason = (
        f"of the first {total} groups none has two different rewards (seen: {rewards_text(seen)}): "
        "this reward cannot"
        " teach these tasks yet"
    )
    return {
        "name": "reward_level",
        "step": step,
        "groups": total,
        "reason": reason,
        "hint": cut_first(CHECK_REWARD, truncated_share(groups)),
    }


def _alike(step: int, total: int) -> Event:
    reason = (
        f"nearly all answers are the same in each of the last {total} groups, which were set aside"
    )
    return {"name": "answers_collapse", "step": step, "reason": reason, "hint": COLLAPSED}


def _nothing_to_learn(
    step: int,
    spreads: Sequence[float],
    groups: Sequence[Group],
    seen: Mapping[float, int],
    last: Metrics | None,
    *,
    is_alike: bool,
) -> Event:
    """``seen`` has several rewards where each group earned one of them as a whole: after a step so
    does a policy that gives every task the same answer.
    """
    mean = statistics.fmean(episode.reward for group in groups for episode in group.episodes)
    distinct, total = statistics.fmean(spreads), len(spreads)
    reason = (
        f"{total} groups in a row had equal rewards (of late {mean:g}): no gradient, and no step "
        "was counted;"
        f" of their answers {distinct:.0%} differ"
    )
    found: dict[str, Any] = {
        "name": "nothing_to_learn",
        "step": step,
        "groups": total,
        "reward_mean": mean,
    }
    apart = last is not None and len(seen) > 1
    if last is not None and (is_alike or apart):
        rate, entropy, kl = (
            last["learning_rate"],
            last["entropy"],
            last.get("kl_before") or last["kl_engine"],
        )
        found |= {"learning_rate": rate, "entropy": entropy, "kl": kl}
        reason += (
            f"; step {last['step']} had learning_rate {rate:g}, an entropy of {entropy:.2g} "
            f"and a KL of {kl:.2g}"
        )
    if apart:
        reason += f"; each group's attempts earned the same, those of all {rewards_text(seen)}"
    hint = COLLAPSED if is_alike else ONE_ANSWER if apart else MORE_SPREAD
    hint = cut_first(hint, truncated_share(groups))
    return found | {"answers_distinct": distinct, "reason": reason, "hint": hint}
