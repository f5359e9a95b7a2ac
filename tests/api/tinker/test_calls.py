"""What the calls of Tinker models returned, as a runtime reports it and as the console reads it."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client as Browser

from console.sessions.models import Session
from console.sessions.runtime.leases import lease_issue
from console.tinker import work
from console.tinker.models import TinkerCheckpoint, TinkerModel, TinkerRuntime
from support.tinker_client import Client
from support.tinker_rows import checkpoint_store
from tinkerscript.wire.tinker.messages import CallColumns, TokensUsed, WorkReport

pytestmark = pytest.mark.django_db(transaction=True)


def training(model_id: str, *seq_ids: int) -> CallColumns:
    """Odd numbers are calls of forward_backward, even ones optimizer steps."""
    kinds = ["forward_backward" if seq_id % 2 else "optim_step" for seq_id in seq_ids]
    losses = [float(seq_id) if seq_id % 2 else None for seq_id in seq_ids]
    rates = [None if seq_id % 2 else 0.1 / seq_id for seq_id in seq_ids]
    measures = {"loss:sum": losses, "learning_rate": rates}
    at = [1_700_000_000.0 + seq_id for seq_id in seq_ids]
    tokens = [seq_id % 2 * 4 for seq_id in seq_ids]
    return CallColumns(
        model_id=model_id,
        seq_ids=list(seq_ids),
        kinds=kinds,
        at=at,
        tokens=tokens,
        measures=measures,
    )


@sync_to_async
def tell(
    session_id: str, key: str, *reported: CallColumns, tokens: TokensUsed | None = None
) -> None:
    lease_issue(session=Session.objects.get(id=session_id))
    client = TinkerRuntime.objects.get(session_id=session_id).tinker_session_id
    told = {client: tokens} if tokens else {}
    body = WorkReport(key=key, tokens=told, spans=[], calls=list(reported))
    work.work_record(session=Session.objects.get(id=session_id), body=body)


def _client_of(run: dict[str, Any]) -> tuple[str, str | None]:
    (client,) = run["clients"]
    return client["sdk_version"], client["finished"]


async def made(client: Client, **changes: Any) -> tuple[str, str]:
    """A session of ours and its model."""
    promise = await client.model(await client.session(), **changes)
    return promise["request_id"].partition("|")[0], promise["model_id"]


@sync_to_async
def read(client: Client, path: str) -> tuple[int, Any]:
    answer = Browser().get(
        f"/v1/sessions/{path}", headers={"Authorization": f"Bearer {client.secret}"}
    )
    return answer.status_code, answer.json()


@sync_to_async
def publish(client: Client, path: str, public: bool) -> tuple[int, Any]:
    send = Browser().post if public else Browser().delete
    answer = send(
        f"/v1/sessions/{path}/publish", headers={"Authorization": f"Bearer {client.secret}"}
    )
    return answer.status_code, answer.json()


async def test_a_model_is_shown_with_its_rank_steps_rate_and_the_loss_of_each_call(
    alices: Client,
) -> None:
    session, model = await made(alices, user_metadata={"recipe": "sft"})
    await tell(session, "a-1", training(model, 1, 2, 3))
    # a runtime that did 2 and 3 again after a kill
    await tell(session, "b-1", training(model, 2, 3, 4, 5))
    status, run = await read(alices, f"{session}/tinker")
    assert status == 200 and (*_client_of(run), run["samplers"]) == (
        "0.38.0",
        None,
        0,
    )
    (shown,) = run["models"]
    assert (shown["id"], shown["lora"]["rank"], shown["user_metadata"]) == (
        model,
        8,
        {"recipe": "sft"},
    )
    assert (shown["steps"], shown["calls"], shown["learning_rate"]) == (2, 3, 0.025)
    _, losses = await read(alices, f"{session}/tinker/{model}/calls")
    assert (losses["numbers"], losses["steps"], losses["tokens"]) == (
        [1, 2, 3],
        [0, 1, 2],
        [4, 4, 4],
    )
    assert losses["columns"]["loss:sum"]["last"] == [1.0, 3.0, 5.0]
    _, steps = await read(alices, f"{session}/tinker/{model}/calls?kind=optim_step&points=1")
    assert (steps["numbers"], steps["calls_in_all"]) == ([2], 2)
    assert steps["columns"]["learning_rate"] == {"last": [0.025], "low": [0.025], "high": [0.05]}


async def test_of_many_calls_the_newest_are_kept_and_all_are_counted(
    alices: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "CALLS_KEPT", 4)
    session, model = await made(alices)
    for first in (1, 5, 9):
        await tell(session, f"a-{first}", training(model, *range(first, first + 4)))
    await tell(session, "a-13", training(model, 1, 2, 3))  # told again long after
    (shown,) = (await read(alices, f"{session}/tinker"))[1]["models"]
    assert (shown["steps"], shown["calls"]) == (6, 6)
    _, losses = await read(alices, f"{session}/tinker/{model}/calls")
    assert losses["numbers"] == [5, 6] and losses["steps"] == [4, 5]
    _, part = await read(alices, f"{session}/tinker/{model}/calls?number_from=6&number_to=9")
    assert (part["numbers"], part["steps"], part["calls_within"], part["calls_in_all"]) == (
        [6],
        [5],
        1,
        6,
    )


async def test_a_part_of_the_calls_is_read_in_as_many_points_as_the_whole(alices: Client) -> None:
    session, model = await made(alices)
    await tell(session, "a-1", training(model, *range(1, 41)))
    calls_of = f"{session}/tinker/{model}/calls?points=4"
    _, coarse = await read(alices, calls_of)
    assert (coarse["numbers"], coarse["calls_within"]) == ([5, 10, 15, 20], 20)
    _, finer = await read(alices, f"{calls_of}&number_from=7&number_to=10")
    assert (finer["numbers"], finer["calls_within"]) == ([7, 8, 9, 10], 4)
    assert finer["columns"]["loss:sum"]["last"] == [13.0, 15.0, 17.0, 19.0]


async def test_tokens_and_samplers_of_a_session_are_shown(alices: Client) -> None:
    session, _ = await made(alices)
    for key in ("a-1", "a-2"):
        await tell(session, key, tokens=TokensUsed(training=7, sampling_sample=2))
    _, run = await read(alices, f"{session}/tinker")
    assert (run["tokens"]["training"], run["tokens"]["sampling_sample"]) == (14, 4)
    assert run["newest_samplers"] == []


async def test_another_project_and_a_session_of_another_kind_have_none(
    alices: Client, eves: Client
) -> None:
    session, model = await made(alices)
    other, foreign = await made(eves)
    # names a model that is not its own
    await tell(other, "e-1", training(model, 1), training(foreign, 1))
    for path in (f"{session}/tinker", f"{session}/tinker/{model}/calls"):
        assert (await read(eves, path))[0] == 404
    assert (await read(alices, f"{session}/tinker/{foreign}/calls"))[0] == 404
    assert (await read(alices, f"{session}/tinker"))[1]["models"][0]["calls"] == 0
    assert (await read(eves, f"{other}/tinker"))[1]["models"][0]["calls"] == 1
    await Session.objects.filter(id=session).aupdate(kind="episodes")
    await sync_to_async(lambda: Session.objects.get(id=session).tinker_clients.all().delete())()
    assert (await read(alices, f"{session}/tinker"))[0] == 404


async def test_a_checkpoint_has_the_path_that_its_client_gave_it(alices: Client) -> None:
    session, model = await made(alices)
    await sync_to_async(checkpoint_store)(model, "first")
    (shown,) = (await read(alices, f"{session}/checkpoints"))[1]["items"]
    assert shown["tinker_path"] == f"tinker://{model}/weights/first"


async def test_a_checkpoint_is_published_for_every_project_and_taken_back(
    alices: Client, eves: Client
) -> None:
    session, model = await made(alices)
    await sync_to_async(checkpoint_store)(model, "first")
    (shown,) = (await read(alices, f"{session}/checkpoints"))[1]["items"]
    assert shown["public"] is False
    path = f"{session}/checkpoints/{shown['id']}"
    assert (await publish(eves, path, True))[0] == 404
    for public in (True, False):
        status, told = await publish(alices, path, public)
        assert (status, told["public"]) == (200, public)
    await sync_to_async(lambda: TinkerCheckpoint.objects.all().delete())()
    assert (await publish(alices, path, True))[0] == 400


async def test_models_come_by_their_numbers_also_where_two_are_made_at_once(
    alices: Client,
) -> None:
    session, first = await made(alices)
    row = await TinkerModel.objects.aget(id=first)
    created = row.created_at
    row.pk = row.id = first.replace(":train:0", ":train:1")
    row.number = 1
    await row.asave(force_insert=True)
    await TinkerModel.objects.filter(id=row.id).aupdate(created_at=created - timedelta(seconds=1))
    _, run = await read(alices, f"{session}/tinker")
    assert [model["id"] for model in run["models"]] == [first, row.id]
