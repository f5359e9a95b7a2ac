"""Which episodes make the next batch, and when a new episode must wait so that none is sampled in vain. Pure functions.

How groups are treated. Episodes of one key form groups of exactly ``grpo_n`` in the order in which they began: a key
with twice as many makes two groups. A partial group waits for its missing members, a singleton included; surplus ones
start the next group of their key. An episode whose oldest token has become too many versions old is stale: counted and
reported, never trained on. A group in which every reward is the same adds nothing to the gradient: beside others it
counts as trained and is shown as skipped; a batch of nothing else is set aside and makes no step. With
``dynamic_sampling`` each such group is set aside, and another takes its place. With ``group_timeout_s`` a group of at
least two whose first member has waited so long is trained as it is.
"""

from collections.abc import Mapping, Sequence

from gpu_runtime.journal.records import EpisodeRecord


def full_groups(
    waiting: Sequence[EpisodeRecord], grpo_n: int, *, overdue_before: float | None = None
) -> list[list[EpisodeRecord]]:
    """Every group that can be trained now, those that became full first in front.

    The order depends on the journal alone, so that a restarted runtime makes the same batches. A partial group of at
    least two, of which a member ended before ``overdue_before`` (Unix time), is taken as it is.
    """
    by_key: dict[str, list[EpisodeRecord]] = {}
    for episode in sorted(waiting, key=lambda episode: episode.seq):
        by_key.setdefault(episode.group_key or "", []).append(episode)
    groups = [
        members[start : start + grpo_n]
        for members in by_key.values()
        for start in range(0, len(members), grpo_n)
        if _is_ready(members[start : start + grpo_n], grpo_n, overdue_before)
    ]
    return sorted(groups, key=lambda group: max(episode.end_seq or 0 for episode in group))


def _is_ready(members: Sequence[EpisodeRecord], grpo_n: int, overdue_before: float | None) -> bool:
    if len(members) == grpo_n:
        return True
    if len(members) < 2 or overdue_before is None:  # one alone has nothing to be compared with
        return False
    return any(episode.ended_at is not None and episode.ended_at <= overdue_before for episode in members)


def stale_episodes(waiting: Sequence[EpisodeRecord], *, policy_version: int, max_staleness: int) -> list[str]:
    """Ids of those whose oldest sampled token is more than ``max_staleness`` versions old."""
    oldest_allowed = policy_version - max_staleness
    return [episode.id for episode in waiting if (episode.version_first or 0) < oldest_allowed]


def batch_is_covered(
    *,
    completed: Mapping[str, int],
    open_known: Mapping[str, int],
    open_unknown: int,
    grpo_n: int,
    tasks_per_batch: int,
) -> bool:
    """Whether the open episodes could already fill the coming batch, so that one more could only be left over.

    ``completed`` and ``open_known`` count episodes per group key; ``open_unknown`` those whose key is not known yet.
    Known ones are counted as completed. What is then missing is the cheapest way to fill the batch: the fewest missing
    members over partial groups, and whole new groups for the rest. It is covered iff as many unknown ones are open.

    False when nothing is open: a loop that runs one episode at a time is never held.
    """
    if open_unknown == 0 and not any(open_known.values()):
        return False
    return open_unknown >= _missing(_totals(completed, open_known), grpo_n, tasks_per_batch)


def task_helps(
    task: str, *, completed: Mapping[str, int], open_known: Mapping[str, int], grpo_n: int, tasks_per_batch: int
) -> bool:
    """Whether one more episode of ``task`` brings the coming batch nearer, rather than start or swell another group."""
    totals = _totals(completed, open_known)
    with_it = {**totals, task: totals.get(task, 0) + 1}
    return _missing(with_it, grpo_n, tasks_per_batch) < _missing(totals, grpo_n, tasks_per_batch)


def _totals(completed: Mapping[str, int], open_known: Mapping[str, int]) -> dict[str, int]:
    return {key: completed.get(key, 0) + open_known.get(key, 0) for key in {*completed, *open_known}}


def _missing(totals: Mapping[str, int], grpo_n: int, tasks_per_batch: int) -> int:
    """The fewest further episodes that fill a batch."""
    needed = tasks_per_batch - sum(total // grpo_n for total in totals.values())
    if needed <= 0:
        return 0
    partial = sorted(grpo_n - total % grpo_n for total in totals.values() if total % grpo_n)
    return sum((partial + [grpo_n] * needed)[:needed])
