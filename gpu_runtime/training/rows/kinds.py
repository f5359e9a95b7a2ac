"""How the data of a call become rows. No torch in here."""

from enum import StrEnum


class RowKind(StrEnum):
    """TREES share prefixes, for models whose layers are attention that a tree can compute.

    Every other model reads timelines whole, by its own forward: PADDED, several of like length side
    by side, the shorter ones filled up behind their end, where a model that reads from left to
    right does not look back from; SINGLE, each by itself, where a model does.
    """

    TREES = "trees"
    PADDED = "padded"
    SINGLE = "single"

    @property
    def shares(self) -> bool:
        """Whether data of one row share their prefixes."""
        return self is RowKind.TREES
