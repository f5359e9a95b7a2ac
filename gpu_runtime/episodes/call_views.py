"""The calls of an episode as the wire shows them: one page of them, and the report of all."""

from collections.abc import Sequence
from typing import Any

from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.journal.timelines import agents_of, merge
from tinkerscript.wire.reading.calls import (
    CallView,
    DriftPoint,
    EpisodeCalls,
    EpisodeReport,
    SampledAnswer,
)

MAX_CALLS_PER_PAGE = 200  # of one page: each carries its whole prompt


def episode_calls(calls: Sequence[CallRecord], *, start: int, limit: int) -> EpisodeCalls:
    """``limit`` of an episode's ``calls``, in the order of recording, from number ``start`` on;
    cursors are numbers.
    """
    end = start + limit
    return EpisodeCalls(
        report=EpisodeReport.model_validate(report(calls)),
        items=[_call(call) for call in calls[start:end]],
        next_cursor=str(end) if end < len(calls) else None,
    )


def report(calls: Sequence[CallRecord]) -> dict[str, Any]:
    """What merged: counts, the share of completions that needed no timeline of their own, and drift
    points.

    A drift point is a call that continues an earlier one in its messages but not in its tokens,
    with the fragment where the template's text departs from what the engine saw.
    """
    completed = [call for call in calls if call.status == "completed"]
    by_agent = agents_of(completed)
    completions = sum(len(segments) for segments in by_agent.values())
    timelines = sum(len(merge(segments)) for segments in by_agent.values())
    return {
        "calls": len(completed),
        "cancelled_calls": len(calls) - len(completed),
        "completions": completions,
        "timelines": timelines,
        "merged_share": round(1 - timelines / completions, 4) if completions else 0.0,
        "agents": sorted(agent for agent in by_agent if agent is not None),
        "drift": [{"call": call.id, **call.drift} for call in completed if call.drift],
    }


def _call(call: CallRecord) -> CallView:
    return CallView(
        id=call.id,
        status=call.status,
        agent=call.agent,
        begun_at=call.begun_at,
        ended_at=call.ended_at,
        options=call.options,
        continues=call.parent.call_id if call.parent else None,
        messages_from=call.messages_from,
        messages=list(call.messages),
        drift=DriftPoint(call=call.id, **call.drift) if call.drift else None,
        prompt_token_ids=list(call.prompt_ids_P),
        completions=[_answer(call, answer) for answer in call.completions],
    )


def _answer(call: CallRecord, answer: Completion) -> SampledAnswer:
    raw_T = call.raw_of(answer)
    return SampledAnswer(
        index=answer.choice,
        message=answer.message,
        finish_reason=answer.finish_reason,
        token_ids=list(answer.token_ids_T),
        logprobs=list(answer.logprobs_T),
        raw_logprobs=None if raw_T is None else list(raw_T),
        policy_versions=list(answer.versions_T),
    )
