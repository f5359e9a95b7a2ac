"""What is measured of a batch without a gradient: rewards, counts, lengths, staleness; and what
agents measured themselves, their metrics, reward parts, and rewards by agent.
"""

import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from gpu_runtime.journal.records import plain
from gpu_runtime.journal.token_values import UNKNOWN
from gpu_runtime.loop.batching import (
    Batch,
    Group,
    answers_of,
    batch_advantages,
    group_has_signal,
)
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput

MAX_NAMES = 50  # of a step


def batch_statistics(
    batch: Batch, config: SessionConfig, aside: Sequence[float] = ()
) -> dict[str, Any]:
    """The part of StepMetrics that needs no gradient: rewards, counts, lengths, staleness.

    ``aside``: the spread of the answers in each group that was set aside on the way to the step.
    """
    rewards = [episode.reward for episode in batch.episodes]
    answers = answers_of(batch.groups)
    lengths = [len(answer.token_ids_T) for answer in answers]
    oldest = [
        episode.record.version_first
        for episode in batch.episodes
        if episode.record.version_first is not None
    ]
    return {
        "reward_mean": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        **{f"reward_p{part}": percentile(rewards, part) for part in (10, 50, 90)},
        "episodes": len(rewards),
        "groups": len(batch.groups),
        "groups_skipped": sum(
            not group_has_signal(advantages_G) for advantages_G in batch_advantages(batch, config)
        ),
        "staleness_max": batch.policy_version - min(oldest, default=batch.policy_version),
        "answers_distinct": statistics.fmean([*map(distinct_share, batch.groups), *aside]),
        "truncated": truncated_share(batch.groups),
        "grammars_lost": sum(UNKNOWN in answer.allowed_T for answer in answers),
        "completion_length_mean": statistics.fmean(lengths) if lengths else 0.0,
        "metrics": own_means(episode.record.output for episode in batch.episodes),
    }


def truncated_share(groups: Sequence[Group]) -> float:
    """The share of the answers that ended by their length and not by themselves."""
    cut = [answer.finish_reason == "length" for answer in answers_of(groups)]
    return statistics.fmean(cut) if cut else 0.0


def distinct_share(group: Group) -> float:
    """How far the answers of a group spread: (different sequences of answers - 1) / (episodes - 1);
    1 for one alone.
    """
    answers = {
        tuple(
            answer.token_ids_T
            for call in episode.calls
            if call.status == "completed"
            for answer in call.completions
        )
        for episode in group.episodes
    }
    return (len(answers) - 1) / (len(group.episodes) - 1) if len(group.episodes) > 1 else 1.0


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of ``values`` lie, linearly between neighbours as numpy's
    default does.
    """
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def own_means(outputs: Iterable[WorkflowOutput | None]) -> dict[str, float]:
    """The mean of each measure over the outputs that have it; of many the first by name.

    A mean that is not finite, of values as large as a float, is left out: JSON has none.
    """
    values: dict[str, list[float]] = {}
    for output in outputs:
        if output is not None:
            for name, value in measures_of(output).items():
                values.setdefault(name, []).append(value)
    first = sorted(values)[:MAX_NAMES]
    return {
        plain(name): math.fsum(values[name]) / len(values[name])
        for name in first
        if _adds_up(values[name])
    }


def rewards_alike(outputs: Iterable[WorkflowOutput]) -> bool:
    """Whether the episodes of a group were ended with the same rewards, those of agents and calls
    too.
    """
    told = {
        (
            output.reward,
            tuple(sorted((output.rewards_by_agent or {}).items())),
            tuple(sorted((output.rewards_by_call or {}).values())),
        )
        for output in outputs
    }
    return len(told) <= 1


def measures_of(output: WorkflowOutput) -> dict[str, float]:
    """Of one episode, by the names that they have among those of a step."""
    of_agents = {
        f"rewards_by_agent/{agent}": reward
        for agent, reward in (output.rewards_by_agent or {}).items()
    }
    return output.measures | of_agents


def _adds_up(values: Sequence[float]) -> bool:
    return max(map(abs, values)) < sys.float_info.max / len(values)
