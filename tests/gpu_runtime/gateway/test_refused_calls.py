"""What the gateway refused of an agent's calls is told at the end of the episode, and stands with
it."""

from pathlib import Path
from typing import Any

import pytest

from support.gateway_harness import Gateway, running_gateway
from tinkerscript.wire.dialects.table import DIALECTS

HELLO = [{"role": "user", "content": "Hi"}]
BAD = {"model": "tiny-model", "messages": HELLO, "no_such_option": 1}


async def send(
    gateway: Gateway, begun: dict[str, Any], path: str, body: Any = BAD, method: str = "POST"
) -> int:
    headers = {"X-Api-Key": begun["api_key"]}
    return (await gateway.http.request(method, path, json=body, headers=headers)).status_code


async def test_an_agent_whose_every_call_is_refused_is_told_why_at_the_end(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin(task="t")
    for _ in range(26):
        assert await send(gateway, begun, "/v1/chat/completions") == 400
    error = (await gateway.end(begun["episode_id"])).json()["error"]
    assert error["code"] == "empty_episode"
    assert error["hint"].startswith("26 calls were refused: ") and "no_such_option" in error["hint"]
    assert "(400, POST /chat/completions)" in error["hint"]
    view = (await gateway.internal("GET", f"/episodes/{begun['episode_id']}")).json()
    assert view["refused"]["count"] == 26 and len(view["refused"]["last"]) == 1, (
        "it is open, and so told"
    )


async def test_a_call_that_never_arrived_is_blamed_on_no_one(gateway: Gateway) -> None:
    begun = await gateway.begin(task="t")
    assert await send(gateway, begun | {"api_key": "another"}, "/v1/chat/completions") == 401
    hint = (await gateway.end(begun["episode_id"])).json()["error"]["hint"]
    assert hint.startswith("No call with its key has arrived.") and "between" not in hint


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        *((path, "POST", 400) for row in DIALECTS for path in row.paths),
        ("/v1/embeddings", "POST", 404),
        ("/v1/chat/completions", "GET", 405),
    ],
)
async def test_refusals_of_every_dialect_and_of_paths_that_are_not_there_are_counted(
    gateway: Gateway, path: str, method: str, status: int
) -> None:
    begun = await gateway.begin(task="t")
    assert await send(gateway, begun, path, method=method) == status
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    view = (await gateway.end(begun["episode_id"])).json()
    [refused] = view["refused"]["last"]
    assert (view["refused"]["count"], refused["status"]) == (1, status)
    assert refused["path"] == f"{method} {path.removeprefix('/v1')}" and view["warning"].startswith(
        "1 call was refused"
    )


async def test_they_stay_with_the_episode_bounded_and_are_events_each_time_their_number_doubles(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as gateway:
        events = gateway.events
        ids = []
        for number in range(5):
            begun = await gateway.begin(task="t", eval=True)
            for option in range(9):
                body = {
                    "model": "tiny-model",
                    "messages": HELLO,
                    f"option_{option}_{'x' * 2000}": 1,
                }
                await send(gateway, begun, "/v1/chat/completions", body)
            ids.append(begun["episode_id"])
            if number < 4:
                await gateway.chat(begun)
                warned = (await gateway.end(ids[-1])).json()["warning"]
                assert (warned is not None) == (number in {0, 1, 3}), (
                    "each time that their number has doubled"
                )
            else:
                await gateway.internal(
                    "POST", f"/episodes/{ids[-1]}/abandon", json={"reason": "no answer"}
                )
        assert [event["episode_id"] for event in events] == [ids[0], ids[1], ids[3]]
        assert (
            events[0]["name"] == "calls_refused"
            and f"9 calls of episode {ids[0]}" in events[0]["reason"]
        )
        assert "option_" not in str(events), "what may quote an agent is erased with the episode"
    async with running_gateway(tmp_path) as gateway:
        listed = (await gateway.internal("GET", "/episodes")).json()["items"]
        assert [row["refused"]["count"] for row in listed] == [9] * 5
        view = (await gateway.internal("GET", f"/episodes/{ids[-1]}")).json()
        assert (
            view["warning"].startswith("9 calls were refused") and len(view["refused"]["last"]) == 3
        )
        assert all(len(call["message"]) <= 400 for call in view["refused"]["last"])
