"""``unsupported_sampling = eval_only``: what the trainer cannot compute is sampled, and its episode
is not trained.
"""

from pathlib import Path
from typing import Any

import pytest

from support.gateway_harness import Gateway, running_gateway

HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    "options", [{"top_p": 0.9}, {"temperature": 0}, {"top_k": 4}, {"logit_bias": {"5": 2}}]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_episode_that_cannot_be_trained_is_evaluated_and_says_so(
    tmp_path: Path, options: dict[str, Any], stream: bool
) -> None:
    (name,) = options
    async with running_gateway(tmp_path, unsupported_sampling="eval_only") as gateway:
        begun = await gateway.begin(task="t")
        before = await gateway.raw_chat(begun["api_key"])
        assert "X-Not-Trained" not in before.headers
        answer = await gateway.raw_chat(begun["api_key"], stream=stream, **options)
        assert answer.status_code == 200 and answer.headers["X-Not-Trained"] == name
        later = await gateway.raw_chat(begun["api_key"])
        assert later.headers["X-Not-Trained"] == name, "of every call from then on"
        shown = (await gateway.internal("GET", f"/episodes/{begun['episode_id']}")).json()
        assert (shown["eval"], shown["reason"]) == (True, name)
        ended = (await gateway.end(begun["episode_id"])).json()
        assert (ended["fate"], ended["eval"], ended["reason"]) == ("eval", True, name)
        assert (await gateway.accounting())["eval"] == 1


async def test_its_group_waits_for_another_attempt_and_is_trained(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, unsupported_sampling="eval_only", tasks_per_batch=1
    ) as gateway:
        for options in ({"top_p": 0.5}, {}, {}):
            begun = await gateway.begin(task="t")
            await gateway.raw_chat(begun["api_key"], **options)
            await gateway.end(begun["episode_id"])
        batch = await gateway.episodes.batches.next_batch()
        assert batch is not None and [episode.record.eval for episode in batch.episodes] == [
            False,
            False,
        ]


async def test_it_stays_evaluated_after_a_restart(tmp_path: Path) -> None:
    config = {"unsupported_sampling": "eval_only"}
    async with running_gateway(tmp_path, **config) as gateway:
        begun = await gateway.begin()
        await gateway.raw_chat(begun["api_key"], top_p=0.9)
    async with running_gateway(tmp_path, **config) as gateway:
        answer = await gateway.raw_chat(begun["api_key"])
        assert answer.headers["X-Not-Trained"] == "top_p"


async def test_a_call_that_is_refused_for_another_reason_changes_nothing(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, unsupported_sampling="eval_only", max_context_length=64
    ) as gateway:
        begun = await gateway.begin()
        long = [{"role": "user", "content": "x " * 60}]
        assert (
            await gateway.raw_chat(begun["api_key"], messages=long, top_p=0.9)
        ).status_code == 400
        assert (
            "X-Not-Trained"
            not in (await gateway.raw_chat(begun["api_key"], messages=HELLO)).headers
        )


async def test_an_episode_of_evaluation_says_nothing_new(gateway: Gateway) -> None:
    begun = await gateway.begin(eval=True)
    answer = await gateway.raw_chat(begun["api_key"], top_p=0.9)
    assert "X-Not-Trained" not in answer.headers
