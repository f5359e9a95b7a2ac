"""A client of the Tinker wire can neither stall the server nor fill its database: what it sends has
bounds.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from api.rest import rate_limit
from api.rest.authentication import KeyCaller
from api.tinker import records
from console.asgi import application
from console.live.models import EventRecord
from console.tinker import telemetry
from console.tinker.models import TinkerSession
from console.users.models import ApiKey, Project
from support.asgi_calls import Call
from support.tinker_client import Client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "query",
    [
        {"display_name": " ".join(f"w{number}" for number in range(1_200))},
        {"statuses": [{"type": "active"}] * 500},
        {"statuses": [{"type": "client_finished", "reasons": ["success"] * 500}]},
        {"project_ids": ["prj_1"] * 1_000},
        {"cursor": {"last_created_at": "9999-12-31T23:59:59-14:00", "last_session_id": "x"}},
        {"cursor": {"last_created_at": "0001-01-01T00:00:00+14:00", "last_session_id": "x"}},
    ],
)
async def test_a_search_is_refused_that_no_database_could_answer(
    query: dict[str, Any], alices: Client
) -> None:
    status, answer = await alices.send("POST", "sessions/search", query)
    assert status == 400, answer
    assert next(iter(query)) in answer["detail"]


async def test_a_search_of_checkpoints_names_so_many_models(alices: Client) -> None:
    assert (await alices.send("POST", "search_checkpoints", {"base_models": ["m"] * 201}))[0] == 400
    assert await alices.post("search_checkpoints", {"base_models": ["m"] * 200}) == {
        "checkpoints": [],
        "next_cursor": None,
    }


async def test_only_calls_that_need_it_take_a_large_body(alices: Client) -> None:
    text = "x" * (70 << 10)
    for path in (
        "create_session",
        "sessions/search",
        "create_sampling_session",
        "session_heartbeat",
    ):
        assert (await alices.send("POST", path, {"session_id": text, "tags": [text]}))[0] == 413, (
            path
        )
    assert await alices.post(
        "telemetry", {"events": [{"text": text}], "session_id": "a name of its own"}
    )


async def test_what_asks_for_a_future_is_small_and_is_not_parsed(alices: Client) -> None:
    wide = b'{"x": [' + b"[]," * 300_000 + b'0], "request_id": "%s"}'
    refused = await alices.mistake(
        "create_model", {"session_id": "tnk_none", "model_seq_id": 0, "base_model": "m"}
    )
    assert refused == "There is no such session."
    assert await alices.send("POST", "retrieve_future", wide % b"refused|bm8=") == (
        200,
        {"error": "no", "category": "user"},
    )
    for path in ("retrieve_future", "retrieve_futures", "cancel_future"):
        assert (await alices.send("POST", path, wide % (b"x" * (200 << 10))))[0] == 413, path


async def test_the_model_of_a_request_is_not_looked_for_in_a_body_of_very_many_values(
    alices: Client,
) -> None:
    body = b'{"model": "m", "x": [' + b"{}," * 60_000 + b"0]}"
    call = Call(application, "POST", "/oai/api/v1/chat/completions", key=alices.secret, body=body)
    status, _, answer = await call.answer()
    assert status == 400 and b"50000 objects and lists" in answer


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_a_number_that_no_json_has_is_refused_or_told_as_text(
    number: str, alices: Client
) -> None:
    body = f'{{"tags": [], "user_metadata": {{"a": [{number}]}}}}'.encode()
    status, answer = await alices.send("POST", "create_session", body)
    assert status == 400 and "user_metadata" in answer["detail"]
    session_id = await alices.session()
    body = f'{{"session_id": "{session_id}", "events": [{{"a": {number}, "b": 1{"0" * 30}}}]}}'.encode()
    assert await alices.send("POST", "telemetry", body) == (200, {"status": "accepted"})
    row = await TinkerSession.objects.aget(id=session_id)
    assert row.early_telemetry == [{"a": str(float(number)), "b": "1" + "0" * 30}]


async def test_what_a_client_says_of_itself_has_a_bound_on_the_record(
    alices: Client, monkeypatch
) -> None:
    monkeypatch.setattr(telemetry, "ON_RECORD", 70)
    session_id = await alices.session()
    made = await alices.model(session_id)
    for message in range(3):
        flood = [
            {"event": f"{message}-{number}", "texts": ["y" * 5_000] * 200} for number in range(40)
        ]
        await alices.post(
            "telemetry",
            {
                "events": [{**each, "texts": each["texts"][:4]} for each in flood],
                "session_id": session_id,
            },
        )
    rows = EventRecord.objects.filter(session_id=made["request_id"].partition("|")[0]).order_by(
        "id"
    )
    said = [row.data["event"] async for row in rows if row.data.get("name") == "tinker_client"]
    assert [each["event"] for each in said] == [f"{m}-{n}" for m in range(3) for n in range(40)][
        -70:
    ]
    await alices.post(
        "telemetry",
        {"events": [{"event": "wide", "texts": ["y" * 5_000] * 40}], "session_id": session_id},
    )
    last = await rows.alast()
    assert (
        last.data["event"]["event"] == "wide"
        and len(json.dumps(last.data["event"])) <= telemetry.EVENT_BYTES
    )


async def test_requests_count_with_those_of_rest_and_by_their_bytes(
    alices: Client, settings, monkeypatch
) -> None:
    settings.RATE_LIMIT_PER_MINUTE = 60  # ten in a window
    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(time=lambda: 1_000_003.0))
    large = {"events": [{"text": "x" * (70 << 10)}], "session_id": "a name of its own"}
    found = [(await alices.send("POST", "telemetry", large))[0] for _ in range(4)]
    assert found == [200, 200, 429, 429], "five requests each"
    status, answer = await alices.send("GET", "sessions")
    assert status == 429 and answer["code"] == "rate_limited"


async def test_a_list_of_training_runs_costs_as_many_queries_however_long_it_is(
    alices: Client, project: Project, django_assert_num_queries
) -> None:
    session_id = await alices.session()
    for number in range(6):
        await alices.model(session_id, number)
    key = await ApiKey.objects.select_related("user").afirst()
    caller = KeyCaller(user=key.user, project=project, scopes=frozenset(), id=key.id, key=key)

    @sync_to_async
    def listed() -> None:
        with django_assert_num_queries(3):
            assert len(records.runs(caller, query={"limit": "5"})["training_runs"]) == 5

    await listed()
