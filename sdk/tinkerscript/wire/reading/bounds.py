"""Bounds on what agents measured themselves, as a list of episodes is narrowed by them."""

import math
import re
from typing import NamedTuple

BOUND = re.compile(r"(.+)(>=|<=)([^<>=]+)", re.DOTALL)
BY_AGENT = "rewards_by_agent/"  # before the agent's name: what it was rewarded with


class MetricBound(NamedTuple):
    """At least (``is_least``) or at most so much of a metric, or of ``rewards_by_agent/<agent>``."""

    name: str
    is_least: bool
    value: float


def bound_of(text: str) -> MetricBound:
    """Of ``turns>=3``. Raises ValueError."""
    parts = BOUND.fullmatch(text)
    try:
        value = float(parts[3]) if parts else math.nan
    except ValueError:
        value = math.nan
    if parts is None or not math.isfinite(value):
        raise ValueError(f"must be a name, >= or <=, and a number, such as turns>=3: {text[:60]!r}")
    return MetricBound(parts[1].strip(), parts[2] == ">=", value)
