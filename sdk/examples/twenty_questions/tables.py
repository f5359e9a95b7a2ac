"""The tables of an evaluation: shares solved with their 95 % intervals, and what changed between
two models.
"""

import math
from collections import defaultdict
from typing import Any

Z = 1.96  # of a 95 % interval


def table(games: list[dict[str, Any]]) -> str:
    """Share solved by category and in all, each with its 95 % interval."""
    lines = [f"{'category':<12} {'games':>5} {'solved':>7}   95 % interval"]
    for category, solved in by_category(games):
        low, high = interval(sum(solved), len(solved))
        share = f"{sum(solved) / len(solved):7.0%}" if solved else "      -"
        lines.append(f"{category:<12} {len(solved):>5} {share}   {low:.0%} to {high:.0%}")
    return "\n".join(lines)


def comparison(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> str:
    """What changed at the nouns that both played, with the 95 % interval of the difference.

    d = (won - lost) / n for pairs, with standard error sqrt(won + lost - (won - lost)^2 / n) / n
    (McNemar, 1947).
    """
    both = [noun for noun in before if noun in after]
    won = sum(after[noun]["solved"] and not before[noun]["solved"] for noun in both)
    lost = sum(before[noun]["solved"] and not after[noun]["solved"] for noun in both)
    if not both:
        return "No noun was played by both."
    difference = (won - lost) / len(both)
    half = Z * math.sqrt(max(0.0, won + lost - (won - lost) ** 2 / len(both))) / len(both)
    low, high = max(-1.0, difference - half), min(1.0, difference + half)
    return (
        f"{len(both)} nouns played by both: {won} solved only after, {lost} only before; "
        f"difference {difference:+.0%}, 95 % interval {low:+.0%} to {high:+.0%}"
    )


def by_category(games: list[dict[str, Any]]) -> list[tuple[str, list[bool]]]:
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for game in games:
        found[game["category"]].append(game["solved"])
    return [*sorted(found.items()), ("all", [game["solved"] for game in games])]


def interval(successes: int, count: int) -> tuple[float, float]:
    """Wilson's interval for a share: (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). E. B.
    Wilson, 1927.
    """
    if count == 0:
        return 0.0, 1.0
    share, square = successes / count, Z * Z / count
    half = Z * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, (share + square / 2 - half) / (1 + square)), min(
        1.0, (share + square / 2 + half) / (1 + square)
    )
