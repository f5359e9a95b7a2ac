"""The rules over a run's last steps, as pure functions of what the steps measured.

Means of five steps are compared, because one step's batch is noise. Every bound on rewards,
entropies and lengths is a share of what the same run had within the last fifty steps: they have no
scale that holds for all tasks. What has been found stands until it is clearly under its bound: a
measure that wavers around it is one alert, not one every few steps.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from tinkerscript.wire.reading.alerts import AlertRule

WINDOW = 50  # steps that are looked at
MEAN_OF = 5  # neighbouring steps that make one mean
OVER = 0.8  # of its bound: what has been found is over below that
LOST_REWARD = 0.5  # of the best mean: the rest is lost
# times the mean difference of neighbouring steps: about seven standard errors of a mean of five
REWARD_NOISE = 3.0
REWARD_STD = 0.25  # of the spread within a batch: a fall that is small beside it is none
LEFT_ENTROPY = 0.2  # of the highest mean
LONGER = 2.0  # times the shortest mean
# nats per token, from the policy before a step to the one after (StepMetrics.kl_before)
MAX_KL = 0.1
MOSTLY_CUT = 0.5  # of the answers
MOSTLY_LEVEL = 0.75  # of the groups
MAX_ENGINE_GAP = 0.1  # nats per token (StepMetrics.kl_engine): rounding keeps it under 0.01
# nats (StepMetrics.engine_gap_p90): below it single tokens make the KL, which the loss leaves out
USUAL_GAP = 0.1

Step = Mapping[str, Any]  # StepMetrics as recorded


def alerts_of(steps: Sequence[Step], standing: Collection[str] = ()) -> dict[AlertRule, str]:
    """The rules that hold after the last of ``steps``, in order, with what was measured.

    Those of ``standing`` held after the step before and are over only below ``OVER`` of their
    bound.
    """
    found = {
        rule: check(steps[-WINDOW:], OVER if rule in standing else 1.0)
        for rule, check in RULES.items()
    }
    return {rule: text for rule, text in found.items() if text is not None}


def _values(steps: Sequence[Step], name: str) -> list[float]:
    return [float(step[name]) for step in steps if step.get(name) is not None]


def _means(values: Sequence[float]) -> list[float]:
    """The mean of each ``MEAN_OF`` neighbouring steps; none where there are too few to compare two
    of them.
    """
    if len(values) < 2 * MEAN_OF:
        return []
    return [fmean(values[at : at + MEAN_OF]) for at in range(len(values) - MEAN_OF + 1)]


def _reward_collapse(steps: Sequence[Step], share: float) -> str | None:
    values = _values(steps, "reward_mean")
    means = _means(values)
    if not means:
        return None
    best, last = max(means), means[-1]
    bound = max(
        # As much as the best mean itself is lost where it is below zero: -1 that becomes -1.5.
        LOST_REWARD * abs(best),
        # Around zero a share of the best mean is next to nothing: there the noise of the run is the
        # bound.
        REWARD_NOISE * fmean(abs(after - before) for before, after in pairwise(values)),
        REWARD_STD * max(_means(_values(steps, "reward_std")), default=0.0),
    )
    if best - last <= share * bound:
        return None
    return f"The mean reward of {MEAN_OF} steps fell from {best:.3g} to {last:.3g}."


def _entropy_collapse(steps: Sequence[Step], share: float) -> str | None:
    means = _means(_values(steps, "entropy"))
    if not means or share * means[-1] >= LEFT_ENTROPY * max(means):
        return None
    return (
        f"The entropy fell from {max(means):.3g} to {means[-1]:.3g} nats per token: completions "
        "are becoming alike."
    )


def _length_blowup(steps: Sequence[Step], share: float) -> str | None:
    means = _means(_values(steps, "completion_length_mean"))
    if not means or means[-1] <= share * LONGER * min(means):
        return None
    return f"Completions grew from {min(means):.4g} to {means[-1]:.4g} tokens."


def _kl(steps: Sequence[Step], share: float) -> str | None:
    return _above(_values(steps, "kl_before"), share, MAX_KL, "moved the policy by a KL of {:.3g}")


def _engine_gap(steps: Sequence[Step], share: float) -> str | None:
    text = "had a KL of {:.3g} between engine and trainer"
    agreed = [
        step.get("engine_gap_p90") is not None and step["engine_gap_p90"] < USUAL_GAP
        for step in steps
    ]
    values = [
        0.0 if is_agreed else step.get("kl_engine")
        for step, is_agreed in zip(steps, agreed, strict=True)
    ]
    return _above(
        [float(value) for value in values if value is not None], share, MAX_ENGINE_GAP, text
    )


def _truncated(steps: Sequence[Step], share: float) -> str | None:
    cut = _values(steps, "truncated")[-MEAN_OF:]
    if len(cut) < MEAN_OF or (mean := fmean(cut)) <= share * MOSTLY_CUT:
        return None
    return f"{mean:.0%} of the answers of the last {MEAN_OF} steps were cut off by their length."


def _equal_rewards(steps: Sequence[Step], share: float) -> str | None:
    """Groups whose rewards were all equal: in the batches, and set aside on the way to them."""
    row = steps[-MEAN_OF:]
    aside, level, groups = (
        sum(_values(row, name)) for name in ("groups_replaced", "groups_skipped", "groups")
    )
    if len(row) < MEAN_OF or aside + level <= share * MOSTLY_LEVEL * (aside + groups):
        return None
    part = (aside + level) / (aside + groups)
    return (
        f"{part:.0%} of the groups of the last {MEAN_OF} steps had equal rewards, and taught "
        "nothing."
    )


def _above(values: Sequence[float], share: float, bound: float, text: str) -> str | None:
    if len(values) < MEAN_OF or (mean := fmean(values[-MEAN_OF:])) <= share * bound:
        return None
    return f"The last {MEAN_OF} steps {text.format(mean)} in the mean, above the bound {bound}."


RULES: dict[AlertRule, Callable[[Sequence[Step], float], str | None]] = {
    AlertRule.REWARD_COLLAPSE: _reward_collapse,
    AlertRule.ENTROPY_COLLAPSE: _entropy_collapse,
    AlertRule.LENGTH_BLOWUP: _length_blowup,
    AlertRule.TRUNCATED: _truncated,
    AlertRule.EQUAL_REWARDS: _equal_rewards,
    AlertRule.KL: _kl,
    AlertRule.ENGINE_GAP: _engine_gap,
}
