"""What a runtime tells of its work: tokens in the usage of their hour, durations in the trace of
their session.
"""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from console.errors import StaleLease
from console.object_store import client as object_store
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_issue
from console.tinker import work
from console.tinker.models import TinkerWork
from support.tinker_client import Client
from tinkerscript.wire.tinker.messages import TokensUsed, WorkReport, WorkSpan

pytestmark = pytest.mark.django_db(transaction=True)


def report(key: str, model_id: str, **tokens: int) -> WorkReport:
    span = WorkSpan(
        kind="forward_backward", of=model_id, began_at=1_700_000_000.0, seconds=0.25, tokens=7
    )
    save = WorkSpan(kind="save_weights", of=model_id, began_at=1_700_000_000.1, seconds=2.0)
    client = model_id.partition(":")[0]
    return WorkReport(key=key, tokens={client: TokensUsed(**tokens)}, spans=[span, save])


@sync_to_async
def tell(session_id: str, body: WorkReport, *, leased: bool = True) -> None:
    if leased:
        lease_issue(session=Session.objects.get(id=session_id))
    work.work_record(session=Session.objects.get(id=session_id), body=body)


async def test_tokens_are_in_the_usage_of_their_hour_once_and_for_their_own_project_alone(
    alices: Client, eves: Client
) -> None:
    session_id = await alices.session()
    made = await alices.model(session_id)
    own = made["request_id"].partition("|")[0]
    first = report("a-1", made["model_id"], training=100, sampling_prefill=5, sampling_sample=9)
    for _ in range(2):
        await tell(own, first)
    await tell(own, report("a-2", made["model_id"], training=11, sampling_prefill_cached=3))
    usage = await alices.get("billing/usage/events")
    assert [event["event_info"] for event in usage["data"]] == [
        {"type": "training", "token_count": 111}, {"type": "sampling_sample", "token_count": 9},
        {"type": "sampling_prefill", "cached": False, "token_count": 5},
        {"type": "sampling_prefill", "cached": True, "token_count": 3},
    ]  # fmt: skip
    assert (
        {event["session_id"] for event in usage["data"]} == {session_id} == set(usage["sessions"])
    )
    assert (await eves.get("billing/usage/events"))["data"] == []
    assert (await Session.objects.aget(id=own)).tokens_trained == 111


async def test_a_runtime_adds_nothing_to_clients_that_it_does_not_serve(
    alices: Client, eves: Client
) -> None:
    own = (await alices.model(await alices.session()))["request_id"].partition("|")[0]
    used = TokensUsed(training=5)
    others = {await eves.session(): used, await alices.session(): used, "tnk_none": used}
    await tell(own, WorkReport(key="a-1", tokens=others, spans=[]))
    for client in (alices, eves):
        assert (await client.get("billing/usage/events"))["data"] == []


async def test_durations_are_in_the_trace_and_what_overlaps_is_a_thread_of_its_own(
    alices: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await alices.session()
    made = await alices.model(session_id)
    await tell(made["request_id"].partition("|")[0], report("a-1", made["model_id"]))
    stored: dict[str, Any] = {}
    monkeypatch.setattr(
        object_store, "put", lambda key, data: stored.update({key: json.loads(data)})
    )
    assert (await alices.get(f"sessions/{session_id}/trace_export"))["status"] == "ready"
    (trace,) = stored.values()
    threads = {
        each["tid"]: each["args"]["name"]
        for each in trace["traceEvents"]
        if each["name"] == "thread_name"
    }
    spans = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    assert [(each["name"], threads[each["tid"]], each["ts"], each["dur"]) for each in spans] == [
        ("forward_backward", made["model_id"], 1_700_000_000_000_000, 250_000),
        ("save_weights", f"{made['model_id']} saving", 1_700_000_000_100_000, 2_000_000),
    ]
    assert spans[0]["args"] == {"count": 1, "tokens": 7}


async def test_spans_have_a_bound_and_a_stale_runtime_tells_nothing(
    alices: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await alices.model(await alices.session())
    own = made["request_id"].partition("|")[0]
    with pytest.raises(StaleLease):
        await tell(own, report("a-0", made["model_id"]), leased=False)
    monkeypatch.setattr(work, "REPORTS_KEPT", 2)
    for number in range(4):
        await tell(own, report(f"a-{number}", made["model_id"], training=1))
    assert [row.key async for row in TinkerWork.objects.order_by("id")] == ["a-2", "a-3"]
    (event,) = (await alices.get("billing/usage/events"))["data"]
    assert event["event_info"]["token_count"] == 4, "tokens of reports that went stay counted"
