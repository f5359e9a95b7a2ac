"""Which episodes make the next batch, and which are too old for one. Pure functions.

How groups are treated. Episodes of one key form groups of exactly ``grpo_n``, those with the oldest
tokens first, else in the order in which they began: a key with twice as many makes two groups. A
partial group waits for its missing members, a singleton included; surplus ones start the next group
of their key. An episode whose oldest token has become too many versions old is stale: counted and
reported, never trained on. A group in which every reward is the same adds nothing to the gradient:
beside others it counts as trained and is shown as skipped; a batch of nothing else is set aside and
makes no step. With ``dynamic_sampling`` each such group is set aside, and another takes its place.
With ``group_timeout_s`` a group of at least two whose first member has waited so long is trained as
it is.
"""

from collections.abc import Sequence

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
