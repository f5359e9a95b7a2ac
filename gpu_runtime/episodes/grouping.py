"""The rules of groups: which episodes make the next batch, which are too old for one, how many more
groups may begin, and which step would come too early. Pure functions.

Episodes of one key form groups of exactly ``grpo_n``, those with the oldest tokens first, else in
the order in which they began: a key with twice as many makes two groups. A partial group waits for
its missing members, a singleton included; surplus ones start the next group of their key. An
episode whose oldest token has become too many versions old is stale: counted and reported, never
trained on. A group in which every reward is the same adds nothing to the gradient: beside others it
counts as trained and is shown as skipped; a batch of nothing else is set aside and makes no step.
With ``dynamic_sampling`` each such group is set aside, and another takes its place. With
``group_timeout_s`` a group of at least two whose first member has waited so long is trained as it
is.

B = ``tasks_per_batch`` groups make a step, s = ``max_staleness``. At policy version v a group is
*due* at step ``oldest + 1 + s``, where ``oldest`` is the least version among its episodes: a later
step would train tokens that are too old. No episode becomes stale while two rules hold.

1. At most (s + 1) * B groups are begun and not trained, so at most (v + 1 + s) * B in all. A group
   that begins at version v is due at step v + 1 + s, and the steps up to that one train (s + 1) * B
   groups.
2. A step is taken only if, of the groups that it leaves, at most j * B are due within the j steps
   after it. Otherwise groups that are not due yet would have taken the places of slower ones. AReaL
   (arXiv:2505.24298, section 5.1) bounds what is begun in the same way, and takes the oldest first.

A group that lacks attempts which nobody makes is not waited for, and a client is never held while
nothing is open.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_runtime.journal.records import EpisodeRecord


def full_groups(
    waiting: Sequence[EpisodeRecord], grpo_n: int, *, overdue_before: float | None = None
) -> list[list[EpisodeRecord]]:
    """Every group that can be trained now, those with the oldest tokens in front, else those that
    became full first.

    The order depends on the journal alone, so that a restarted runtime makes the same batches. A
    partial group of at least two, of which a member ended before ``overdue_before`` (Unix time), is
    taken as it is.
    """
    by_key: dict[str, list[EpisodeRecord]] = {}
    for episode in sorted(waiting, key=lambda episode: (episode.version_first or 0, episode.seq)):
        by_key.setdefault(episode.group_key or "", []).append(episode)
    groups = [
        members[start : start + grpo_n]
        for members in by_key.values()
        for start in range(0, len(members), grpo_n)
        if _is_ready(members[start : start + grpo_n], grpo_n, overdue_before)
    ]
    return sorted(
        groups,
        key=lambda group: (group[0].version_first or 0, max(each.end_seq or 0 for each in group)),
    )


def _is_ready(members: Sequence[EpisodeRecord], grpo_n: int, overdue_before: float | None) -> bool:
    if len(members) == grpo_n:
        return True
    if len(members) < 2 or overdue_before is None:  # one alone has nothing to be compared with
        return False
    return any(
        episode.ended_at is not None and episode.ended_at <= overdue_before for episode in members
    )


def stale_episodes(
    waiting: Sequence[EpisodeRecord], *, policy_version: int, max_staleness: int
) -> list[str]:
    """Ids of those whose oldest sampled token is more than ``max_staleness`` versions old."""
    oldest_allowed = policy_version - max_staleness
    return [episode.id for episode in waiting if (episode.version_first or 0) < oldest_allowed]


@dataclass(frozen=True)
class Begun:
    """An episode that is begun and not trained. ``key`` is None until its first prompt names its
    group, ``version`` that of its oldest token."""

    id: str
    key: str | None
    version: int
    is_open: bool


@dataclass(frozen=True)
class BegunGroup:
    """Up to ``grpo_n`` episodes of one key. ``can_fill``: it lacks nothing, or one of them is still
    played, or another attempt at its task is on its way."""

    oldest: int
    size: int
    has_open: bool
    can_fill: bool


def begun_groups(
    episodes: Iterable[Begun], grpo_n: int, on_the_way: Collection[str] = ()
) -> list[BegunGroup]:
    """The groups that ``episodes`` make, those of one key from its oldest on."""
    by_key: dict[str | None, list[Begun]] = {}
    for episode in sorted(episodes, key=lambda each: each.version):
        by_key.setdefault(episode.key, []).append(episode)
    found: list[BegunGroup] = []
    for key, members in by_key.items():
        for start in range(0, len(members), grpo_n):
            part = members[start : start + grpo_n]
            has_open = any(each.is_open for each in part)
            can_fill = has_open or len(part) == grpo_n or key in on_the_way
            found.append(BegunGroup(part[0].version, len(part), has_open, can_fill))
    return found


def step_is_early(
    chosen: Sequence[Begun],
    left: Sequence[Begun],
    *,
    step: int,
    grpo_n: int,
    batch_groups: int,
    max_staleness: int,
    on_the_way: Collection[str] = (),
) -> bool:
    """Whether step ``step`` of the ``chosen`` episodes has to wait for an open one among those that
    it would leave.

    False where waiting could change nothing: each chosen group is due as soon as those that wait.
    """
    taken = [group.oldest for group in begun_groups(chosen, grpo_n)]
    groups = [group for group in begun_groups(left, grpo_n, on_the_way) if group.can_fill]
    for later in range(max_staleness + 1):  # groups due at step ``step + later`` or before
        oldest = step + later - 1 - max_staleness
        due = [group for group in groups if group.oldest <= oldest]
        if len(due) <= later * batch_groups or all(version <= oldest for version in taken):
            continue
        if any(group.size < grpo_n or group.has_open for group in due):
            return True
    return False


@dataclass(frozen=True)
class Places:
    """What the begun episodes leave of the ``groups`` that may be begun. ``grpo_n`` episodes are a
    group."""

    groups: int
    grpo_n: int
    episodes: Sequence[Begun]

    @property
    def is_exceeded(self) -> bool:
        """Whether more groups are begun: one began while nothing was open (a loop over interleaved
        tasks)."""
        return self._free < 0

    @cached_property
    def has_open(self) -> bool:
        """Whether a client works on one of them."""
        return any(episode.is_open for episode in self.episodes)

    @property
    def has_room(self) -> bool:
        """Whether one more episode is within ``groups`` * ``grpo_n``."""
        return len(self.episodes) < self.groups * self.grpo_n

    def admit(self, task: str | None) -> bool:
        """Whether an attempt at ``task`` joins a begun group, or there is place for another
        group."""
        if task is not None:
            return task in self._lacking or self._free > 0
        # Of unknown tasks the cheapest case is assumed, as for those that are open: they fill what
        # is begun.
        return self._free > 0 or self._beyond < 0 or self._beyond % self.grpo_n > 0

    @cached_property
    def _totals(self) -> Counter[str]:
        """Episodes by key."""
        return Counter(episode.key for episode in self.episodes if episode.key is not None)

    @cached_property
    def _lacking(self) -> dict[str, int]:
        """What the last group of each key lacks."""
        lacking = {key: -total % self.grpo_n for key, total in self._totals.items()}
        return {key: missing for key, missing in lacking.items() if missing}

    @cached_property
    def _beyond(self) -> int:
        """How many of those without a key are more than the groups of keys lack; below 0, how many
        fewer."""
        return len(self.episodes) - self._totals.total() - sum(self._lacking.values())

    @cached_property
    def _free(self) -> int:
        begun = sum(-(-total // self.grpo_n) for total in self._totals.values())
        return self.groups - begun - -(-max(0, self._beyond) // self.grpo_n)
