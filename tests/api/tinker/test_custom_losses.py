"""``create_custom_loss``: an id comes back at once, for what may be computed, and a refusal that names what may not."""

import json

import pytest

from support.loss_bodies import custom_loss_body
from support.tinker_client import Client
from tinkerscript.wire.tinker.custom_loss import loss_unpack

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_loss_is_promised_and_its_id_is_what_it_is_made_of(alices: Client) -> None:
    session_id = await alices.session()
    promise = await alices.post("create_custom_loss", custom_loss_body(session_id))
    assert await alices.post("create_custom_loss", custom_loss_body(session_id)) == promise, "a retry gets the same"
    made = await alices.post("retrieve_future", {"request_id": promise["request_id"], "allow_metadata_only": True})
    assert made["type"] == "create_custom_loss"
    loss = loss_unpack(made["loss_id"])
    assert [node.target for node in loss.graph.nodes] == ["logprobs", "torch.sum", "output"]
    assert "session_id" not in json.loads(loss.model_dump_json())


async def test_what_a_loss_may_not_call_is_refused_by_name(alices: Client) -> None:
    refused = await alices.mistake("create_custom_loss", custom_loss_body(await alices.session(), "os.system"))
    assert "'sum_1' (call_function os.system)" in refused
    assert "the client computes it" in refused


async def test_a_loss_of_another_projects_session_is_refused(alices: Client, eves: Client) -> None:
    assert "no such session" in await eves.mistake("create_custom_loss", custom_loss_body(await alices.session()))


async def test_a_promise_that_only_looks_like_one_of_a_loss_is_none(alices: Client) -> None:
    await alices.post("retrieve_future", {"request_id": "x", "other": "custom|loss-x"}, 404)
    await alices.post("retrieve_future", {"request_id": "refused|not base64"}, 404)
