"""Calls that the journal was pruned of: which those are, and how they are read back from the object
store.

    archived, told of, document stored -> a later state is committed -> the control plane names the place -> pruned

A document has all that training, downloads of batches and readers need. Not in it: what only an
open episode needs.
"""

import asyncio
import base64
import json
import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, DiskFull, StoreUnavailable
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion, Parent
from gpu_runtime.journal.removal import episodes_prunable, episodes_prune
from gpu_runtime.journal.token_values import (
    experts_unpack,
    floats_pack,
    floats_unpack,
    pack_floats,
    sets_spread,
    unpack_floats,
)
from gpu_runtime.session import Session
from tinkerscript.wire.runtime import DocumentPlace, DocumentPlaces, DocumentsFind

SMALL_BYTES = 16 << 20  # a journal that is no larger is left whole
AT_ONCE = 500  # episodes of one question to the control plane
CALL_S = 60.0

log = logging.getLogger(__name__)
Answers = dict[tuple[str, int], dict[str, Any]]
# Lists of a document beside its timelines: of each answer that has some.
KEPT = ("allowed", "raw_logprobs", "experts", "trainer_logprobs", "trainer_logprobs_after")


class StoredCalls:
    """The calls of one session's pruned episodes."""

    def __init__(self, session: Session, journal: Journal) -> None:
        self._agent, self._store, self._journal = session.agent, session.store, journal
        resumed = session.assignment.resume_from
        # The steps of the last two committed states, as far as this runtime knows; 0: none.
        self.states = (0, resumed.step if resumed else 0)

    async def recall(self, episode_ids: Sequence[str]) -> Mapping[str, tuple[CallRecord, ...]]:
        """The calls of each, bit by bit as they were trained. Raises StoreUnavailable,
        ControlPlaneLost, LeaseLost.
        """
        places = [place for some in _portions(episode_ids) for place in await self._places(some)]
        if missing := set(episode_ids) - {place.episode_id for place in places}:
            raise StoreUnavailable(f"the store has no tokens of {', '.join(sorted(missing)[:5])}")
        packed = await self._store.ranges_read(places)
        read = await asyncio.to_thread(lambda: [document_calls(_unpack(data)) for data in packed])
        return {place.episode_id: tuple(calls) for place, calls in zip(places, read, strict=True)}

    async def prune(self, committed_step: int) -> None:
        """Take out of the journal what the store has. What is away or full now is pruned after a
        later state.
        """
        self.states = (self.states[1], committed_step)
        if self._journal.path.stat().st_size <= SMALL_BYTES:
            return
        database, pruned = self._journal.database, 0
        try:
            prunable = await asyncio.to_thread(
                episodes_prunable, database, committed_step=committed_step
            )
            for some in _portions(prunable):
                known = [place.episode_id for place in await self._places(some)]
                await asyncio.to_thread(episodes_prune, database, known)
                pruned += len(known)
            await asyncio.to_thread(database.compact, least_bytes=SMALL_BYTES)
        except (StoreUnavailable, ControlPlaneLost, ControlPlaneRefused, DiskFull) as fault:
            log.warning("the journal is pruned later: %s", fault)
        if pruned:
            log.info("the calls of %d episodes are in the object store alone from now on", pruned)

    async def _places(self, episode_ids: Sequence[str]) -> list[DocumentPlace]:
        wanted = DocumentsFind(episode_ids=list(episode_ids))
        answer = await self._agent.call(
            "/v1/runtime/documents", wanted, DocumentPlaces, deadline_s=CALL_S
        )
        return answer.items


def document_calls(document: Mapping[str, Any]) -> list[CallRecord]:
    """The calls that ``episode_document`` made this document of, without what it leaves out."""
    runs: Answers = {
        (run["call"], run["answer"]): run for line in document["timelines"] for run in line["runs"]
    }
    kept: dict[str, Answers] = {
        # a document of before 0.2 has no experts
        name: {(entry["call"], entry["answer"]): entry for entry in document.get(name, ())}
        for name in KEPT
    }
    sequences = [
        [token for run in line["runs"] for token in run["token_ids"]]
        for line in document["timelines"]
    ]
    return [
        _call(document["episode_id"], call, runs, kept, sequences) for call in document["calls"]
    ]


def _call(
    episode_id: str,
    call: Mapping[str, Any],
    runs: Answers,
    kept: Mapping[str, Answers],
    sequences: Sequence[list[int]],
) -> CallRecord:
    placed = next((answer for answer in call["answers"] if answer["timeline"] is not None), None)
    prompt = (
        call["prompt_token_ids"]
        if placed is None
        else sequences[placed["timeline"]][: placed["start"]]
    )
    drift = (
        {name: value for name, value in call["drift"].items() if name != "call"}
        if call["drift"]
        else None
    )
    return CallRecord(
        id=call["id"],
        episode_id=episode_id,
        prompt_ids_P=tuple(prompt),
        completions=tuple(
            _completion(call["id"], answer, runs, kept) for answer in call["answers"]
        ),
        begun_at=call["begun_at"],
        ended_at=call["ended_at"],
        status=call["status"],
        agent=call["agent"],
        parent=Parent(call["continues"], 0, 0) if call["continues"] else None,
        messages_from=call["messages_from"],
        messages=call["messages"],
        options=call["options"],
        drift=drift,
    )


def _completion(
    call_id: str, answer: Mapping[str, Any], runs: Answers, kept: Mapping[str, Answers]
) -> Completion:
    at = (call_id, answer["index"])
    tokens = answer if answer["timeline"] is None else runs[at]
    allowed, raw, experts, before, after = (kept[name].get(at) for name in KEPT)
    return Completion(
        choice=answer["index"],
        token_ids_T=tuple(tokens["token_ids"]),
        logprobs_T=_float32(tokens["logprobs"]),
        versions_T=tuple(tokens["policy_versions"]),
        text="",
        finish_reason=answer["finish_reason"],
        message=answer["message"],
        allowed_T=sets_spread(allowed["numbers"], [*map(base64.b64decode, allowed["sets"])])
        if allowed
        else (),
        raw_logprobs_T=_float32(raw["logprobs"]) if raw else (),
        experts_T=experts_unpack(base64.b64decode(experts["rows"]), len(tokens["token_ids"]))
        if experts
        else (),
        trainer_logprobs_T=floats_unpack(floats_pack(before["logprobs"])) if before else (),
        trainer_logprobs_after_T=floats_unpack(floats_pack(after["logprobs"])) if after else (),
    )


def _float32(values: Sequence[float]) -> tuple[float, ...]:
    """Nine digits become the engine's 32 bits again."""
    return unpack_floats(pack_floats(values))


def _unpack(data: bytes) -> Any:
    try:
        return json.loads(zlib.decompress(data, wbits=31))
    except (zlib.error, ValueError) as error:
        raise StoreUnavailable(
            f"the store's document of an episode cannot be read: {error}"
        ) from error


def _portions(episode_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(episode_ids), AT_ONCE):
        yield episode_ids[start : start + AT_ONCE]
