"""Merges the calls of an episode into timelines: the token sequences that are trained.

Two completions share a timeline when one's sequence (prompt then sampled ids) is an exact prefix of
the other's. Those are the leaves of a prefix trie over ids. Sorted, the sequences are such a trie
laid flat: all that extends one follows directly. Agents, forks, retries and compressed contexts
separate by themselves: their ids differ.

Every sampled token is trained exactly once. A token that two timelines have in their shared prefix
is trained in one of them and is context in the other. Equal answers that were sampled twice are two
samples: each has its own timeline.

Shape legend: T tokens of a timeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.token_values import UNKNOWN, AllowedSet, Experts, set_size

Value = TypeVar("Value")


@dataclass(frozen=True)
class Segment:
    """One completion to be merged: its whole prompt, what was sampled, and of each sampled id the
    log-probability, (where it is wanted) the policy version, (under a grammar) the ids that could
    have been sampled, (of a mixture) the experts that sampled it, and (where they were
    recorded) the log-probability at temperature 1 over all ids and the trainer's own before and
    after its step.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    call_id: str = ""
    versions: tuple[int, ...] = ()
    temperature: float = 1.0
    allowed: tuple[AllowedSet | None, ...] = ()
    is_truncated: bool = False
    raw_logprobs: tuple[float, ...] | None = None
    trainer_logprobs: tuple[float | None, ...] = ()
    trainer_logprobs_after: tuple[float | None, ...] = ()
    experts: tuple[Experts | None, ...] = ()
    is_side: bool = False  # of a call without tools, in an episode that has others with them


@dataclass(frozen=True)
class Timeline:
    """``mask_T`` is 1 where a token of one of ``segments`` (indices, in input order) is trained
    here.
    """

    token_ids_T: tuple[int, ...]
    mask_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    segments: tuple[int, ...]


def merge(segments: Sequence[Segment]) -> list[Timeline]:
    """The timelines of ``segments``, by the first segment in each. Segments without a sampled token
    add nothing.
    """
    sequences = {
        i: segment.prompt_ids + segment.token_ids
        for i, segment in enumerate(segments)
        if segment.token_ids
    }
    builders: list[_TimelineBuilder] = []
    # Descending: what extends a sequence comes right before it, so the builders it could join are
    # the last ones made.
    for index in sorted(sequences, key=lambda i: (sequences[i], -i), reverse=True):
        extended = _find_extension(
            builders, sequences[index], start=len(segments[index].prompt_ids)
        )
        if extended is None:
            extended = _TimelineBuilder(sequences[index])
            builders.append(extended)
        extended.add(index, segments[index])
    builders.sort(key=lambda builder: min(builder.segments))
    return [builder.finish() for builder in builders]


def agents_of(calls: Sequence[CallRecord]) -> dict[str | None, list[Segment]]:
    """What each agent of an episode sampled, in the order of its calls; unlabelled calls are the
    agent None.
    """
    by_agent: dict[str | None, list[Segment]] = {}
    has_tools = any(call.options.get("tools") for call in calls)
    for call in calls:
        if call.status == "completed":
            for answer in call.completions:
                sampled = answer.token_ids_T, answer.logprobs_T, call.id, answer.versions_T
                is_truncated = answer.finish_reason == "length"
                unknown = (UNKNOWN,) * len(answer.token_ids_T) if call.is_narrowed else ()
                allowed = answer.allowed_T or unknown
                raw = call.raw_of(answer)
                told = is_truncated, raw, answer.trainer_logprobs_T, answer.trainer_logprobs_after_T
                is_side = has_tools and not call.options.get("tools")
                segment = Segment(
                    call.prompt_ids_P,
                    *sampled,
                    call.temperature,
                    allowed,
                    *told,
                    experts=answer.experts_T,
                    is_side=is_side,
                )
                by_agent.setdefault(call.agent, []).append(segment)
    return by_agent


def by_token(
    timeline: Timeline,
    merged: Sequence[Segment],
    values: Sequence[Sequence[Value]],
    *,
    elsewhere: Value,
) -> list[Value]:
    """``values[i]`` at the tokens that were sampled as ``merged[i]``, one for each."""
    found = [elsewhere] * len(timeline.token_ids_T)
    for piece, of_piece in zip(merged, values, strict=True):
        start = len(piece.prompt_ids)
        found[start : start + len(piece.token_ids)] = of_piece
    return found


def trained_part(
    timeline: Timeline, pieces: Sequence[Segment], *, with_truncated: bool, with_side: bool = True
) -> Timeline:
    """The timeline with tokens as context that there is nothing to learn from.

    Those are the only choice that a grammar left (and all that one bound where its choices were not
    recorded) and, unless ``with_truncated``, answers that ``max_tokens`` cut off: DAPO's overlong
    filtering (arXiv:2503.14476, section 3.4), and unless ``with_side``, those of calls without
    tools beside others with them.
    """
    kept = [
        i
        for i in timeline.segments
        if (with_truncated or not pieces[i].is_truncated) and (with_side or not pieces[i].is_side)
    ]
    merged = [pieces[i] for i in kept]
    if len(kept) == len(timeline.segments) and not any(piece.allowed for piece in merged):
        return timeline
    mask_T = tuple(by_token(timeline, merged, [_choices(piece) for piece in merged], elsewhere=0))
    logprobs_T = tuple(
        logprob if mask else 0.0 for logprob, mask in zip(timeline.logprobs_T, mask_T, strict=True)
    )
    return replace(timeline, mask_T=mask_T, logprobs_T=logprobs_T, segments=tuple(kept))


def allowed_of(
    timeline: Timeline, merged: Sequence[Segment]
) -> tuple[AllowedSet | None, ...] | None:
    """What each trained token was chosen from; None where all were chosen from every id."""
    nothing: AllowedSet | None = None
    sets = [piece.allowed or (None,) * len(piece.token_ids) for piece in merged]
    allowed_T = by_token(timeline, merged, sets, elsewhere=nothing)
    found = tuple(
        each if mask else None for each, mask in zip(allowed_T, timeline.mask_T, strict=True)
    )
    return None if all(each is None for each in found) else found


def experts_of(timeline: Timeline, pieces: Sequence[Segment]) -> tuple[Experts | None, ...] | None:
    """The experts that sampled each token of a whole timeline; None where none were recorded."""
    merged = [pieces[index] for index in timeline.segments]
    if not any(any(piece.experts) for piece in merged):
        return None
    nothing: Experts | None = None
    values = [piece.experts or (None,) * len(piece.token_ids) for piece in merged]
    return tuple(by_token(timeline, merged, values, elsewhere=nothing))


def _choices(piece: Segment) -> list[int]:
    """1 for each token that had an alternative."""
    if not piece.allowed:
        return [1] * len(piece.token_ids)
    return [int(each is None or set_size(each) > 1) for each in piece.allowed]


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
        return Timeline(
            self.token_ids, tuple(self._mask), tuple(self._logprobs), tuple(sorted(self.segments))
        )


def _find_extension(
    builders: Sequence[_TimelineBuilder], sequence: tuple[int, ...], start: int
) -> _TimelineBuilder | None:
    for builder in reversed(builders):
        if builder.token_ids[: len(sequence)] != sequence:
            return None
        if builder.is_untrained(start, len(sequence)):
            return builder
    return None
