"""Rewards of single calls: named as the agent knows them, refused when there was no such call,
trained as said.
"""

from typing import Any

import anthropic
import pytest

from gpu_runtime.loop.batching import batch_samples
from support.gateway_harness import MODEL, Gateway
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput

NOWHERE = "chatcmpl-" + "0" * 24


async def ids_in_every_dialect(gateway: Gateway, begun: dict[str, Any]) -> list[str]:
    """One call in each; the ids that the clients were answered."""
    client, hello = gateway.openai(begun), [{"role": "user", "content": "hello"}]
    url = f"http://{gateway.address}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as other:
        message = await other.messages.create(model=MODEL, max_tokens=8, messages=hello)
    return [
        (await client.chat.completions.create(model=MODEL, messages=hello)).id,
        (await client.completions.create(model=MODEL, prompt="hello")).id,
        (await client.responses.create(model=MODEL, input="hello")).id,
        message.id,
    ]


async def listed(gateway: Gateway, begun: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls as their agent reads them."""
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    answer = await gateway.http.get(f"/v1/episodes/{begun['episode_id']}/calls", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_the_id_of_every_dialects_answer_names_its_call(gateway: Gateway) -> None:
    begun = await gateway.begin()
    names = await ids_in_every_dialect(gateway, begun)
    assert [name.partition("-")[0].partition("_")[0] for name in names] == [
        "chatcmpl",
        "cmpl",
        "resp",
        "msg",
    ]
    rewards = {name: float(number) for number, name in enumerate(names)}
    view = (await gateway.end(begun["episode_id"], 0.0, rewards_by_call=rewards)).json()
    assert view["rewards_by_call"] == rewards
    again = await gateway.end(begun["episode_id"], 0.0, rewards_by_call=rewards)
    assert (again.status_code, again.json()) == (200, view)


async def test_the_id_in_the_list_of_calls_names_it_too_and_a_streams_id_as_well(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    (streamed,) = {chunk.id async for chunk in await gateway.chat(begun, stream=True)}
    await gateway.chat(begun)
    first, second = [call["id"] for call in await listed(gateway, begun)]
    assert first.removeprefix("call_") == streamed.removeprefix("chatcmpl-")
    assert (
        await gateway.end(begun["episode_id"], rewards_by_call={streamed: 1.0, second: 0.0})
    ).status_code == 200


async def test_an_unknown_call_is_named_and_the_episode_lives_on(gateway: Gateway) -> None:
    other = await gateway.begin()
    foreign = (await gateway.chat(other)).id
    begun = await gateway.begin()
    own = (await gateway.chat(begun)).id
    for name in (NOWHERE, foreign, "0", ""):
        refused = await gateway.end(begun["episode_id"], rewards_by_call={own: 1.0, name: 1.0})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert name in error["message"]
        assert error["details"] == {"unknown": [name], "param": "rewards_by_call"}
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert (await gateway.end(begun["episode_id"], rewards_by_call={own: 1.0})).status_code == 200


async def test_one_call_under_two_names_is_refused(gateway: Gateway) -> None:
    begun = await gateway.begin()
    name = (await gateway.chat(begun)).id
    twice = {name: 1.0, name.replace("chatcmpl-", "call_"): 0.0}
    refused = await gateway.end(begun["episode_id"], rewards_by_call=twice)
    assert refused.status_code == 400
    assert name in refused.json()["error"]["message"]


async def test_a_cancelled_call_cannot_be_rewarded(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    gateway.engine.hang = True
    stream = await gateway.chat(begun, stream=True)
    cancelled = (await anext(stream)).id
    await stream.close()
    await eventually(lambda: len(gateway.journal.calls.of_episode(begun["episode_id"])) == 2)
    refused = await gateway.end(begun["episode_id"], rewards_by_call={cancelled: 1.0})
    assert refused.status_code == 400
    assert cancelled in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "rewards", ['{"x": NaN}', '{"x": Infinity}', '{"x": 1e999}', "[1]", '{"x": null}']
)
async def test_a_call_reward_that_is_no_finite_number_is_refused(
    gateway: Gateway, rewards: str
) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    body = f'{{"output": {{"reward": 1, "rewards_by_call": {rewards}}}}}'
    refused = await gateway.internal("POST", f"/episodes/{begun['episode_id']}/end", content=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_reward")
    assert (await gateway.end(begun["episode_id"])).status_code == 200


async def test_each_call_is_trained_with_what_it_earned(gateway: Gateway) -> None:
    """Two episodes of two turns; in one the first turn was good, in the other the second."""
    for rewards in ((1.0, 0.0), (0.0, 1.0)):
        begun = await gateway.begin(task="t")
        messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
        names = []
        for _ in rewards:
            answer = await gateway.chat(begun, messages=messages)
            names.append(answer.id)
            echoed = answer.choices[0].message.model_dump(exclude_none=True)
            messages += [echoed, {"role": "user", "content": "go on"}]
        await gateway.end(
            begun["episode_id"], 0.5, rewards_by_call=dict(zip(names, rewards, strict=True))
        )
    batch = await gateway.episodes.batches.flush_batch()
    assert batch is not None
    samples = batch_samples(batch, SessionConfig(normalize_advantage=False))
    turns = [request.token_ids for request in gateway.engine.requests]
    assert len(samples) == 2
    for sample, (first, second), sign in zip(
        samples, (turns[:2], turns[2:]), (1.0, -1.0), strict=True
    ):
        trained = [
            advantage
            for advantage, mask in zip(sample.advantages_T, sample.mask_T, strict=True)
            if mask
        ]
        assert trained == [1.0 * sign] * len(first) + [-1.0 * sign] * len(second)
    await gateway.episodes.batches.step_done(batch.step, {})


def test_what_a_journal_held_before_is_read_as_it_was() -> None:
    """Outputs that were written without the field."""
    old = '{"reward":1.0,"is_success":null,"metrics":{},"metadata":{},"rewards_by_agent":{"a":0.5}}'
    assert WorkflowOutput.model_validate_json(old) == WorkflowOutput(
        reward=1.0, rewards_by_agent={"a": 0.5}
    )


# What is shown of an episode's calls.


async def test_calls_are_paged_with_the_report_of_them_all(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for number in range(5):
        await gateway.chat(begun, f"question {number}", extra_headers={"X-Agent": "a"})
    path, cursor, seen, pages = f"/episodes/{begun['episode_id']}/calls", "", [], 0
    while cursor is not None:
        page = (
            await gateway.internal(
                "GET", path, params={"limit": 2} | ({"cursor": cursor} if cursor else {})
            )
        ).json()
        seen += [call["id"] for call in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
        assert (page["report"]["calls"], page["report"]["timelines"], page["report"]["agents"]) == (
            5,
            5,
            ["a"],
        )
    assert seen == [call.id for call in gateway.journal.calls.of_episode(begun["episode_id"])]
    assert pages == 3


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "limit=-1", "cursor=x", "cursor=-1", "limit=٣"]
)
async def test_a_page_that_cannot_be_is_refused(gateway: Gateway, query: str) -> None:
    begun = await gateway.begin()
    answer = await gateway.internal("GET", f"/episodes/{begun['episode_id']}/calls?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["param"] == query.partition("=")[0]


async def test_calls_of_no_episode_are_a_404(gateway: Gateway) -> None:
    assert (await gateway.internal("GET", "/episodes/epi_none/calls")).status_code == 404


async def test_what_was_reported_is_shown_whole_alone_and_brief_in_lists(gateway: Gateway) -> None:
    begun = await gateway.begin()
    name = (await gateway.chat(begun, extra_headers={"X-Agent": "a"})).id
    said = {
        "is_success": False,
        "metrics": {"turns": 3.0},
        "metadata": {"seen": ["x", {"y": None}]},
    }
    said |= {"rewards_by_agent": {"a": 0.25}, "rewards_by_call": {name: 0.75}}
    await gateway.end(begun["episode_id"], 0.5, **said)
    view = (await gateway.internal("GET", f"/episodes/{begun['episode_id']}")).json()
    assert {key: view[key] for key in said} == said
    (brief,) = (await gateway.internal("GET", "/episodes")).json()["items"]
    assert brief == view | {"metadata": None, "rewards_by_call": None}
