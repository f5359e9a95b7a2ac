"""What to change in a session some of whose episodes became too old to be trained."""

MAX_STALENESS = 16  # the most that an episode's tokens may be behind, in steps


def stale_advice(max_staleness: int) -> str:
    """The end of a sentence that says why they did."""
    first = "finish the attempts at one task before others begin"
    if max_staleness == 0:
        return f"{first}, or set max_staleness=1"
    if max_staleness < MAX_STALENESS:
        return (
            f"{first}, begin fewer episodes at a time, or raise max_staleness, which is "
            f"{max_staleness}"
        )
    return (
        f"{first}, and begin fewer episodes at a time: max_staleness is {max_staleness}, the "
        "most that there is"
    )
