"""Merges the calls of an episode into timelines: the token sequences that are trained.

Two completions share a timeline when one's sequence (prompt then sampled ids) is an exact prefix of the other's. Those
are the leaves of a prefix trie over ids. Sorted, the sequences are such a trie laid flat: all that extends one follows
directly. Agents, forks, retries and compressed contexts separate by themselves: their ids differ.

Every sampled token is trained exactly once. A token that two timelines have in their shared prefix is trained in one of
them and is context in the other. Equal answers that were sampled twice are two samples: each has its own timeline.

Shape legend: T tokens of a timeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.journal_records import CallRecord


@dataclass(frozen=True)
class Piece:
    """One completion to be merged: its whole prompt, what was sampled, and of each sampled id the log-probability and
    (where somebody asks for it) the policy version."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    call_id: str = ""
    versions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """``mask_T`` is 1 where a token of one of ``pieces`` (indices, in input order) is trained here."""

    token_ids_T: tuple[int, ...]
    mask_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    pieces: tuple[int, ...]


def merge(pieces: Sequence[Piece]) -> list[Timeline]:
    """The timelines of ``pieces``, ordered by the first piece in each. Pieces without a sampled token add nothing."""
    sequences = {i: piece.prompt_ids + piece.token_ids for i, piece in enumerate(pieces) if piece.token_ids}
    drafts: list[_Draft] = []
    # Descending: what extends a sequence comes right before it, so its possible homes are the last drafts made.
    for index in sorted(sequences, key=lambda i: (sequences[i], -i), reverse=True):
        home = _home(drafts, sequences[index], start=len(pieces[index].prompt_ids))
        if home is None:
            home = _Draft(sequences[index])
            drafts.append(home)
        home.take(index, pieces[index])
    drafts.sort(key=lambda draft: min(draft.pieces))
    return [draft.finish() for draft in drafts]


def agents_of(calls: Sequence[CallRecord]) -> dict[str | None, list[Piece]]:
    """What each agent of an episode sampled, in the order of its calls; unlabelled calls are the agent None."""
    by_agent: dict[str | None, list[Piece]] = {}
    for call in calls:
        if call.status == "completed":
            for answer in call.completions:
                piece = Piece(call.prompt_ids_P, answer.token_ids_T, answer.logprobs_T, call.id, answer.versions_T)
                by_agent.setdefault(call.agent, []).append(piece)
    return by_agent


def report(calls: Sequence[CallRecord]) -> dict:
    """What merged: counts, the share of completions that needed no timeline of their own, and drift points.

    A drift point is a call that continues an earlier one in its messages but not in its tokens, with the fragment where
    the template's text departs from what the engine saw.
    """
    completed = [call for call in calls if call.status == "completed"]
    by_agent = agents_of(completed)
    completions = sum(len(pieces) for pieces in by_agent.values())
    timelines = sum(len(merge(pieces)) for pieces in by_agent.values())
    return {
        "calls": len(completed),
        "cancelled_calls": len(calls) - len(completed),
        "completions": completions,
        "timelines": timelines,
        "merged_share": round(1 - timelines / completions, 4) if completions else 0.0,
        "agents": sorted(agent for agent in by_agent if agent is not None),
        "drift": [{"call": call.id, **call.drift} for call in completed if call.drift],
    }


class _Draft:
    """A timeline under construction. Trained ranges are half-open, ``taken`` holds them in order of arrival."""

    def __init__(self, token_ids: tuple[int, ...]) -> None:
        self.token_ids = token_ids
        self.pieces: list[int] = []
        self.taken: list[tuple[int, int]] = []
        self._mask = bytearray(len(token_ids))
        self._logprobs = [0.0] * len(token_ids)

    def has_room(self, start: int, end: int) -> bool:
        return not any(self._mask[start:end])

    def take(self, index: int, piece: Piece) -> None:
        start = len(piece.prompt_ids)
        end = start + len(piece.token_ids)
        self._mask[start:end] = b"\x01" * (end - start)
        self._logprobs[start:end] = piece.logprobs
        self.pieces.append(index)

    def finish(self) -> Timeline:
        return Timeline(self.token_ids, tuple(self._mask), tuple(self._logprobs), tuple(sorted(self.pieces)))


def _home(drafts: Sequence[_Draft], sequence: tuple[int, ...], start: int) -> _Draft | None:
    for draft in reversed(drafts):
        if draft.token_ids[: len(sequence)] != sequence:
            return None
        if draft.has_room(start, len(sequence)):
            return draft
    return None
