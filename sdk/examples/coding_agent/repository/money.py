"""Amounts of money in cents."""


def shared(cents, people):
    """One share for each of ``people``: they differ by a cent at most, larger ones first, and none
    is lost."""
    return [cents // people] * people
