"""Ways in which an episode service can betray its users, each closed here: one named test per
hole.
"""

import asyncio
from pathlib import Path

import pytest

from gpu_runtime.errors import DiskFull
from gpu_runtime.journal.timelines import agents_of, merge
from support.gateway_harness import Gateway, running_gateway
from tinkerscript.wire import episode_key

TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}


def merged(gateway: Gateway, begun: dict):
    return [
        t
        for p in agents_of(gateway.journal.calls.of_episode(begun["episode_id"])).values()
        for t in merge(p)
    ]


async def test_zombie_agent_writes_into_no_other_episode(gateway: Gateway) -> None:
    """An agent whose episode was taken away still has a key: it opens nothing, and the next attempt
    has another.
    """
    zombie = await gateway.begin(task="t")
    await gateway.internal(
        "POST", f"/episodes/{zombie['episode_id']}/abandon", json={"reason": "swept"}
    )
    fresh = await gateway.begin(task="t")
    assert fresh["episode_id"] != zombie["episode_id"]
    assert fresh["api_key"] != zombie["api_key"]
    assert (await gateway.raw_chat(zombie["api_key"])).status_code == 410
    assert gateway.journal.calls.of_episode(fresh["episode_id"]) == []


async def test_zombie_reward_closes_no_other_episode(gateway: Gateway) -> None:
    zombie = await gateway.begin(task="t")
    await gateway.chat(zombie)
    fresh = await gateway.begin(task="t", supersedes=zombie["episode_id"])
    assert (await gateway.end(zombie["episode_id"], 9.0)).status_code == 410
    assert (await gateway.internal("GET", f"/episodes/{fresh['episode_id']}")).json()[
        "state"
    ] == "open"


async def test_no_one_without_the_relay_key_aborts_or_ends_an_episode(gateway: Gateway) -> None:
    """Ownership is the control plane's to check; its gateway takes orders from it alone, never from
    an episode key.
    """
    victim, other = await gateway.begin(), await gateway.begin()
    headers = {"Authorization": f"Bearer {other['api_key']}"}
    for action in ("abandon", "end", "heartbeat"):
        path = f"/episodes/{victim['episode_id']}/{action}"
        assert (await gateway.http.post(path, json={}, headers=headers)).status_code == 401
    path = f"/v1/episodes/{victim['episode_id']}/calls"
    assert (await gateway.http.get(path, headers=headers)).status_code == 404


async def test_success_is_never_reported_before_it_is_true(tmp_path: Path) -> None:
    """Every acknowledged end is found again by a runtime that starts on the same disk, as are all
    its tokens.
    """
    acknowledged = {}
    async with running_gateway(tmp_path) as gateway:
        for number in range(3):
            begun = await gateway.begin()
            answer = (await gateway.raw_chat(begun["api_key"])).json()
            view = await gateway.end(begun["episode_id"], float(number))
            acknowledged[begun["episode_id"]] = (view.json(), answer["choices"][0]["token_ids"])
    async with running_gateway(tmp_path) as gateway:
        for episode_id, (view, token_ids) in acknowledged.items():
            assert (await gateway.internal("GET", f"/episodes/{episode_id}")).json() == view
            assert (
                list(gateway.journal.calls.of_episode(episode_id)[0].completions[0].token_ids_T)
                == token_ids
            )


async def test_no_call_is_returned_but_unrecorded_across_a_weight_update(tmp_path: Path) -> None:
    """An episode that is in flight while weights change keeps every turn, each with its version."""
    async with running_gateway(tmp_path, max_staleness=4) as gateway:
        begun = await gateway.begin(task="t")
        answered = []
        for version in range(4):
            with gateway.episodes.batches.stepping():
                answered.append(
                    (await gateway.raw_chat(begun["api_key"])).json()["choices"][0]["token_ids"]
                )
                gateway.engine.version = version + 1
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert [list(call.completions[0].token_ids_T) for call in calls] == answered
        assert [set(call.completions[0].versions_T) for call in calls] == [{0}, {1}, {2}, {3}]


async def test_one_bad_request_does_not_kill_the_episode(gateway: Gateway) -> None:
    begun = await gateway.begin()
    odd_requests = [
        {"tools": [{"type": "function", "function": {}}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]},
        {"messages": [{"role": "user", "content": "x " * 3000}]},
        {"messages": "hello"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
    ]
    for request in odd_requests:
        assert (
            await asyncio.wait_for(gateway.raw_chat(begun["api_key"], **request), 25)
        ).status_code == 400
    gateway.engine.dead = True
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 503
    gateway.engine.dead = False
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert (await gateway.end(begun["episode_id"])).json()["calls"] == 1


async def test_failed_transition_leaves_no_state_without_a_way_out(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)

    def full(*_: object) -> None:
        raise DiskFull("the test took all the room")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.journal.episodes, "end", full)
        assert (await gateway.end(begun["episode_id"])).status_code == 507
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert (await gateway.end(begun["episode_id"])).status_code == 200


async def test_no_answer_but_begin_carries_a_key(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    texts = [
        (await gateway.internal("GET", "/episodes")).text,
        (await gateway.internal("GET", f"/episodes/{begun['episode_id']}")).text,
        (await gateway.internal("GET", f"/episodes/{begun['episode_id']}/calls")).text,
        (await gateway.end(begun["episode_id"])).text,
        (await gateway.raw_chat(begun["api_key"])).text,
    ]
    assert not [text for text in texts if "tml-ep-" in text]
    assert begun["api_key"].encode() not in gateway.journal.path.read_bytes()


async def test_key_is_signed_and_carries_no_address(gateway: Gateway) -> None:
    begun = await gateway.begin()
    claim = episode_key.read(begun["api_key"])
    assert set(vars(claim)) == {"session_id", "episode_id", "expires_at", "key_id"}
    assert gateway.address not in repr(claim)
    later = episode_key.EpisodeClaim(claim.session_id, claim.episode_id, claim.expires_at + 10_000)
    assert (await gateway.raw_chat(episode_key.sign(b"guessed", later))).status_code == 401


# What a merge of messages by their text gets wrong.


async def test_turns_with_empty_text_and_other_calls_are_not_equal(gateway: Gateway) -> None:
    begun = await gateway.begin()
    asked = [{"role": "user", "content": "x"}]
    for name in ("a", "b"):
        gateway.engine.say(f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>')
        answer = await gateway.chat(begun, messages=asked, tools=[TOOL], max_tokens=100)
        echoed = answer.choices[0].message.model_dump(exclude_none=True)
        result = {"role": "tool", "tool_call_id": echoed["tool_calls"][0]["id"], "content": "ok"}
        await gateway.chat(begun, messages=[*asked, echoed, result], tools=[TOOL])
    timelines = merged(gateway, begun)
    assert len(timelines) == 2
    assert sum(sum(t.mask_T) for t in timelines) == sum(
        len(r.token_ids) for r in gateway.engine.requests
    )


async def test_equal_parallel_answers_are_both_trained(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say("same", "same")
    await gateway.chat(begun, n=2)
    assert len(merged(gateway, begun)) == 2


async def test_same_text_in_another_role_is_another_conversation(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun, messages=[{"role": "user", "content": "x"}])
    await gateway.chat(begun, messages=[{"role": "system", "content": "x"}])
    assert len(merged(gateway, begun)) == 2


async def test_same_text_under_other_tools_is_another_conversation(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun, tools=[TOOL])
    await gateway.chat(begun)
    assert len(merged(gateway, begun)) == 2


async def test_control_tokens_that_the_model_makes_up_change_nothing(gateway: Gateway) -> None:
    begun = await gateway.begin()
    stray = [
        *gateway.renderer.encode("<|im_start|>") * 20,
        *gateway.engine.encode("hi"),
        gateway.engine.end_id,
    ]
    gateway.engine.say(stray)
    answer = await gateway.chat(begun)
    assert answer.choices[0].message.content == "hi"
    echoed = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    await gateway.chat(begun, messages=[*echoed, {"role": "user", "content": "go on"}])
    (timeline,) = merged(gateway, begun)
    assert sum(timeline.mask_T) == len(stray) + len(gateway.engine.requests[1].token_ids)


# Agents.


async def test_named_agents_get_their_own_rewards(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun, "plan", extra_headers={"X-Agent": "planner"})
    await gateway.chat(begun, "do", metadata={"agent": "doer"})
    unknown = await gateway.end(begun["episode_id"], 0.5, rewards_by_agent={"critic": 1.0})
    assert unknown.status_code == 400
    assert unknown.json()["error"]["details"]["known"] == ["doer", "planner"]
    view = await gateway.end(
        begun["episode_id"], 0.5, rewards_by_agent={"planner": 1.0, "doer": 0.0}
    )
    assert view.json()["timelines"] == 2
