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

from gpu_runtime.journal.records import CallRecord


@dataclass(frozen=True)
class Segment:
    """One completion to be merged: its whole prompt, what was sampled, and of each sampled id the log-probability and
    (where it is wanted) the policy version."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    call_id: str = ""
    versions: tuple[int, ...] = ()
    temperature: float = 1.0
    is_narrowed: bool = False
    is_truncated: bool = False


@dataclass(frozen=True)
class Timeline:
    """``mask_T`` is 1 where a token of one of ``segments`` (indices, in input order) is trained here."""

    token_ids_T: tuple[int, ...]
    mask_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    segments: tuple[int, ...]


def merge(segments: Sequence[Segment]) -> list[Timeline]:
    """The timelines of ``segments``, by the first segment in each. Segments without a sampled token add nothing."""
    sequences = {i: segment.prompt_ids + segment.token_ids for i, segment in enumerate(segments) if segment.token_ids}
    builders: list[_TimelineBuilder] = []
    # Descending: what extends a sequence comes right before it, so the builders it could join are the last ones made.
    for index in sorted(sequences, key=lambda i: (sequences[i], -i), reverse=True):
        extended = _find_extension(builders, sequences[index], start=len(segments[index].prompt_ids))
        if extended is None:
            extended = _TimelineBuilder(sequences[index])
            builders.append(extended)
        extended.add(index, segments[index])
    builders.sort(key=lambda builder: min(builder.segments))
    return [builder.finish() for builder in builders]


def agents_of(calls: Sequence[CallRecord]) -> dict[str | None, list[Segment]]:
    """What each agent of an episode sampled, in the order of its calls; unlabelled calls are the agent None."""
    by_agent: dict[str | None, list[Segment]] = {}
    for call in calls:
        if call.status == "completed":
            for answer in call.completions:
                sampled = answer.token_ids_T, answer.logprobs_T, call.id, answer.versions_T
                is_truncated = answer.finish_reason == "length"
                segment = Segment(call.prompt_ids_P, *sampled, call.temperature, call.is_narrowed, is_truncated)
                by_agent.setdefault(call.agent, []).append(segment)
    return by_agent


class _TimelineBuilder:
    """A timeline under construction: which of its tokens are trained, and by which segments."""

    def __init__(self, token_ids: tuple[int, ...]) -> None:
        self.token_ids = token_ids
        self.segments: list[int] = []
        self._mask = bytearray(len(token_ids))
        self._logprobs = [0.0] * len(token_ids)

    def is_untrained(self, start: int, end: int) -> bool:
        return not any(self._mask[start:end])

    def add(self, index: int, segment: Segment) -> None:
        start = len(segment.prompt_ids)
        end = start + len(segment.token_ids)
        self._mask[start:end] = b"\x01" * (end - start)
        self._logprobs[start:end] = segment.logprobs
        self.segments.append(index)

    def finish(self) -> Timeline:
        return Timeline(self.token_ids, tuple(self._mask), tuple(self._logprobs), tuple(sorted(self.segments)))


def _find_extension(
    builders: Sequence[_TimelineBuilder], sequence: tuple[int, ...], start: int
) -> _TimelineBuilder | None:
    for builder in reversed(builders):
        if builder.token_ids[: len(sequence)] != sequence:
            return None
        if builder.is_untrained(start, len(sequence)):
            return builder
    return None
