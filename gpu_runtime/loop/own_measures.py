"""What agents measured themselves, over the episodes of a step: their metrics, reward parts, and
rewards by agent."""

import math
import sys
from collections.abc import Iterable, Sequence

from gpu_runtime.journal.rows import plain
from tinkerscript.wire.episodes import WorkflowOutput

MAX_NAMES = 50  # of a step


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
