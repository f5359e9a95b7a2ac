"""Whether what an agent reports fits what its episode did. A refusal leaves the episode open."""

from collections.abc import Iterable, Sequence

from gpu_runtime.journal.records import CallRecord, canonical_call_id
from gpu_runtime.refusals import BadRequest, EmptyEpisode
from tinkerscript.wire.episodes import RefusedCalls, WorkflowOutput

MAX_NAMES_SHOWN = 5  # of the wrong names, in the message; all are in the details


def check_output(
    output: WorkflowOutput, calls: Sequence[CallRecord], refused: RefusedCalls | None
) -> None:
    """Raises EmptyEpisode, and BadRequest for a reward of an agent or of a call that there was
    not.
    """
    completed = [call for call in calls if call.status == "completed"]
    if not completed:
        hint = (
            f"{refused.sentence} Change that, or abandon the episode."
            if refused is not None
            else None
        )
        raise EmptyEpisode(
            "this episode has no LLM call: there is nothing to train or to count", hint=hint
        )
    agents = {call.agent for call in completed if call.agent is not None}
    if unknown := sorted({*(output.rewards_by_agent or {})} - agents):
        raise BadRequest(
            f"rewards_by_agent names {_some(unknown)}, but no call of this episode was labelled so",
            hint="Label the calls of an agent with the header X-Agent or with metadata.agent.",
            param="rewards_by_agent",
            details={"unknown": unknown, "known": sorted(agents)},
        )
    _check_calls(output.rewards_by_call or {}, {call.id for call in completed})


def _check_calls(names: Iterable[str], known: set[str]) -> None:
    by_call: dict[str, str] = {}
    unknown: list[str] = []
    for name in names:
        call_id = canonical_call_id(name)
        if call_id not in known:
            unknown.append(name)
        elif call_id in by_call:
            raise BadRequest(
                f"rewards_by_call names one call twice, as {by_call[call_id]} and as {name}",
                param="rewards_by_call",
            )
        by_call[call_id] = name
    if unknown:
        raise BadRequest(
            f"rewards_by_call names {_some(unknown)}, but no answered call of this episode has "
            "that id",
            hint="A call's id is the id of its answer; GET /v1/episodes/{episode_id}/calls lists "
            "them.",
            param="rewards_by_call",
            details={"unknown": unknown},
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return ", ".join(f"{name:.80}" for name in names[:MAX_NAMES_SHOWN]) + more
