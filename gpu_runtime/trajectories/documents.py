"""The document of an episode (``tinkerscript.wire.reading.trajectories``): its calls, and every
token in its timelines.

Each sampled token is in one run of one timeline, the one that trains it, with its text,
log-probability and version.
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gpu_runtime.episodes.call_views import report
from gpu_runtime.journal.records import CallRecord, Completion, EpisodeRecord, dump
from gpu_runtime.journal.timelines import Segment, Timeline, agents_of, merge
from gpu_runtime.journal.token_values import AllowedSet, Experts, experts_pack, sets_number
from gpu_runtime.trajectories.token_texts import WINDOW, TokenTexts

PIECE_ITEMS = 2000  # of a list that are written as JSON at once: the interpreter is free in between
LEVEL = 6
V = TypeVar("V")
Place = tuple[int, int]  # index of a timeline, position of an answer's first token in it


def episode_document(
    record: EpisodeRecord, calls: Sequence[CallRecord], texts: TokenTexts
) -> dict[str, Any]:
    """Everything of an ended episode that is kept of its calls and tokens, as plain JSON values."""
    timelines: list[dict[str, Any]] = []
    places: dict[tuple[str, int], Place] = {}
    choices = _choices(calls)
    for agent, segments in agents_of(calls).items():
        for timeline in merge(segments):
            merged = [(index, segments[index]) for index in timeline.segments]
            timelines.append(
                _timeline(len(timelines), agent, timeline, merged, choices[agent], texts)
            )
            for index, segment in merged:
                answer = choices[agent][index]
                places[segment.call_id, answer.choice] = (
                    len(timelines) - 1,
                    len(segment.prompt_ids),
                )
    return {
        "episode_id": record.id,
        "output": record.output.model_dump(mode="json") if record.output else None,
        "report": report(calls),
        "calls": [_call(call, places) for call in calls],
        "timelines": timelines,
        # shown nowhere: stored_calls.py reads it
        "allowed": _kept(calls, lambda answer: answer.allowed_T, _allowed),
        "raw_logprobs": _kept(calls, lambda answer: answer.raw_logprobs_T, _logprobs),
        "experts": _kept(calls, lambda answer: answer.experts_T, _experts),
        # Before the step that trained it, and after it; a document of before that step has none.
        "trainer_logprobs": _kept(calls, lambda answer: answer.trainer_logprobs_T, _logprobs),
        "trainer_logprobs_after": _kept(
            calls, lambda answer: answer.trainer_logprobs_after_T, _logprobs
        ),
    }


def document_pack(document: Mapping[str, Any]) -> bytes:
    """The document as gzipped JSON; the same document gives the same bytes."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
    return b"".join(packer.compress(piece.encode()) for piece in _json(document)) + packer.flush()


def _choices(calls: Sequence[CallRecord]) -> dict[str | None, list[Completion]]:
    """The answers of each agent in the order in which ``agents_of`` has their segments."""
    by_agent: dict[str | None, list[Completion]] = {}
    for call in calls:
        if call.status == "completed":
            by_agent.setdefault(call.agent, []).extend(call.completions)
    return by_agent


def _timeline(
    index: int,
    agent: str | None,
    timeline: Timeline,
    merged: Sequence[tuple[int, Segment]],
    answers: Sequence[Completion],
    texts: TokenTexts,
) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    ids_T, at = timeline.token_ids_T, 0
    for number, segment in sorted(merged, key=lambda pair: len(pair[1].prompt_ids)):
        start, end = len(segment.prompt_ids), len(segment.prompt_ids) + len(segment.token_ids)
        if at < start:
            runs.append(_context(ids_T, at, start, texts))
        runs.append(
            _sampled(segment, answers[number].choice, ids_T[max(0, start - WINDOW) : start], texts)
        )
        at = end
    if at < len(ids_T):
        runs.append(_context(ids_T, at, len(ids_T), texts))
    return {"index": index, "agent": agent, "tokens": len(ids_T), "runs": runs}


def _context(ids_T: Sequence[int], start: int, end: int, texts: TokenTexts) -> dict[str, Any]:
    token_ids = ids_T[start:end]
    text = texts.text(token_ids, ids_T[max(0, start - WINDOW) : start])
    empty: dict[str, Any] = {"pieces": [], "logprobs": [], "policy_versions": [], "split_bytes": {}}
    return {
        "call": None, "answer": 0, "start": start, "tokens": len(token_ids), "text": text,
        "token_ids": list(token_ids),
    } | empty  # fmt: skip


def _sampled(
    segment: Segment, choice: int, before: Sequence[int], texts: TokenTexts
) -> dict[str, Any]:
    pieces = texts.pieces(segment.token_ids, before)
    return {
        "call": segment.call_id,
        "answer": choice,
        "start": len(segment.prompt_ids),
        "tokens": len(segment.token_ids),
        "text": "".join(pieces),
        "token_ids": list(segment.token_ids),
        "pieces": pieces,
        "logprobs": _float32(segment.logprobs),
        "policy_versions": list(segment.versions),
        "split_bytes": {str(at): raw for at, raw in texts.split_bytes(segment.token_ids).items()},
    }


def _call(call: CallRecord, places: Mapping[tuple[str, int], Place]) -> dict[str, Any]:
    answers = [_answer(answer, places.get((call.id, answer.choice))) for answer in call.completions]
    has_place = any(answer["timeline"] is not None for answer in answers)
    return {
        "id": call.id,
        "status": call.status,
        "agent": call.agent,
        "begun_at": call.begun_at,
        "ended_at": call.ended_at,
        "options": call.options,
        "continues": call.parent.call_id if call.parent else None,
        "messages_from": call.messages_from,
        "messages": list(call.messages),
        "drift": {"call": call.id, **call.drift} if call.drift else None,
        "answers": answers,
        "prompt_token_ids": [] if has_place else list(call.prompt_ids_P),
    }


def _answer(answer: Completion, place: Place | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "index": answer.choice, "message": answer.message, "finish_reason": answer.finish_reason,
        "tokens": len(answer.token_ids_T), "token_ids": [], "logprobs": [], "policy_versions": [],
    }  # fmt: skip
    if place is not None:
        return shown | {"timeline": place[0], "start": place[1]}
    own = {"token_ids": list(answer.token_ids_T), "logprobs": _float32(answer.logprobs_T)}
    return shown | own | {"timeline": None, "start": 0, "policy_versions": list(answer.versions_T)}


def _kept(
    calls: Sequence[CallRecord],
    values: Callable[[Completion], Sequence[V]],
    shown: Callable[[Sequence[V]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Of each answer that has some."""
    return [
        {"call": call.id, "answer": answer.choice, **shown(values(answer))}
        for call in calls
        for answer in call.completions
        if values(answer)
    ]


def _allowed(allowed_T: Sequence[AllowedSet | None]) -> dict[str, Any]:
    numbers_T, sets = sets_number(allowed_T)
    return {"numbers": numbers_T, "sets": [base64.b64encode(each).decode() for each in sets]}


def _experts(experts_T: Sequence[Experts | None]) -> dict[str, Any]:
    return {"rows": base64.b64encode(experts_pack(experts_T)).decode()}


def _logprobs(logprobs_T: Sequence[float | None]) -> dict[str, Any]:
    return {"logprobs": _float32(logprobs_T)}


def _float32(values: Sequence[float | None]) -> list[float | None]:
    """Nine digits name every float of 32 bits."""
    return [None if value is None else float(f"{value:.9g}") for value in values]


def _json(value: Any) -> Iterator[str]:
    """``value`` as JSON in pieces, none of them long to make."""
    if isinstance(value, Mapping):
        yield "{"
        for number, (name, inner) in enumerate(value.items()):
            yield f"{',' if number else ''}{json.dumps(name)}:"
            yield from _json(inner)
        yield "}"
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        yield "["
        for number, inner in enumerate(value):
            if number:
                yield ","
            yield from _json(inner)
        yield "]"
    elif isinstance(value, list) and len(value) > PIECE_ITEMS:
        for at in range(0, len(value), PIECE_ITEMS):
            yield ("[" if at == 0 else ",") + dump(value[at : at + PIECE_ITEMS])[1:-1]
        yield "]"
    else:
        yield dump(value)
