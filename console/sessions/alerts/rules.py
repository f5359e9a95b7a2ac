"""The rules over a run's last steps, as pure functions of what the steps measured.

Means of five steps are compared, because one step's batch is noise. Every bound is a share of what the same run had
within the last fifty steps: rewards, entropies and lengths have no scale that holds for all tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tinkerscript.wire.reading.alerts import AlertRule

WINDOW = 50  # steps that are looked at
MEAN_OF = 5  # neighbouring steps that make one mean
LOST_REWARD = 0.5  # of the best mean: the rest is lost
LEFT_ENTROPY = 0.2  # of the highest mean
LONGER = 2.0  # times the shortest mean
MAX_KL = 0.1  # nats per token, from the policy before a step to the one after (StepMetrics.kl_before)
MAX_ENGINE_GAP = 0.1  # nats per token (StepMetrics.kl_engine): rounding keeps it under 0.01

Step = Mapping[str, Any]  # StepMetrics as recorded


def alerts_of(steps: Sequence[Step]) -> dict[AlertRule, str]:
    """The rules that hold after the last of ``steps``, in order, with what was measured."""
    if not steps:
        return {}
    rules = {
        AlertRule.REWARD_COLLAPSE: _reward_collapse(_means(steps, "reward_mean")),
        AlertRule.ENTROPY_COLLAPSE: _entropy_collapse(_means(steps, "entropy")),
        AlertRule.LENGTH_BLOWUP: _length_blowup(_means(steps, "completion_length_mean")),
        AlertRule.KL: _above(steps[-1].get("kl_before"), MAX_KL, "The step moved the policy by a KL of {:.3g}"),
        AlertRule.ENGINE_GAP: _above(
            steps[-1].get("kl_engine"), MAX_ENGINE_GAP, "Engine and trainer differ by a KL of {:.3g}"
        ),
    }
    return {rule: text for rule, text in rules.items() if text is not None}


def _means(steps: Sequence[Step], name: str) -> list[float]:
    """The mean of each ``MEAN_OF`` neighbouring steps; none where there are too few to compare two of them."""
    values = [float(step[name]) for step in steps[-WINDOW:] if step.get(name) is not None]
    if len(values) < 2 * MEAN_OF:
        return []
    return [sum(values[at : at + MEAN_OF]) / MEAN_OF for at in range(len(values) - MEAN_OF + 1)]


def _reward_collapse(means: Sequence[float]) -> str | None:
    if not means:
        return None
    best, last = max(means), means[-1]
    # As much as the best mean itself is lost where it is below zero: -1 that becomes -1.5.
    if best - last <= LOST_REWARD * abs(best) or best == last:
        return None
    return f"The mean reward of {MEAN_OF} steps fell from {best:.3g} to {last:.3g}."


def _entropy_collapse(means: Sequence[float]) -> str | None:
    if not means or means[-1] >= LEFT_ENTROPY * max(means):
        return None
    return f"The entropy fell from {max(means):.3g} to {means[-1]:.3g} nats per token: answers are becoming one."


def _length_blowup(means: Sequence[float]) -> str | None:
    if not means or means[-1] <= LONGER * min(means):
        return None
    return f"Answers grew from {min(means):.4g} to {means[-1]:.4g} tokens."


def _above(value: float | None, bound: float, text: str) -> str | None:
    return None if value is None or value <= bound else f"{text.format(value)}; {bound} is much."
