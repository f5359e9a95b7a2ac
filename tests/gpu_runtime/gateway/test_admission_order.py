"""Many begins that wait for a step together: those go first that make whole groups, whatever order
they arrived in.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from gpu_runtime.episodes import admission_queue
from support.gateway_harness import Gateway, running_gateway
from tinkerscript.wire.episodes import EpisodeBegin, EpisodeBegun

pytestmark = pytest.mark.system


async def begin(gateway: Gateway, task: str) -> EpisodeBegun:
    return await gateway.episodes.begin(EpisodeBegin(task=task), hold_s=30)


async def finish(gateway: Gateway, begun: EpisodeBegun, reward: float) -> None:
    assert (await gateway.raw_chat(begun.api_key)).status_code == 200
    assert (await gateway.end(begun.episode_id, reward)).status_code == 200


async def test_begins_that_waited_long_still_make_whole_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of hundreds of coroutines: what is begun beyond the coming batch would be stale after
    it.
    """
    monkeypatch.setattr(admission_queue, "SORT_S", 0.2)
    async with running_gateway(tmp_path, grpo_n=4, tasks_per_batch=2, max_staleness=0) as gateway:
        first = [await begin(gateway, task) for task in "xxxxyyyy"]
        later = [asyncio.ensure_future(begin(gateway, task)) for task in "abcdabcdabcdabcd"]
        done, _ = await asyncio.wait(later, timeout=3 * admission_queue.SORT_S)
        assert done == set(), "the open episodes fill the coming batch"
        for number, begun in enumerate(first):
            await finish(gateway, begun, number)
        batches = gateway.episodes.batches
        while later:
            async with asyncio.timeout(25):
                batch = await batches.next_batch()
            assert batch is not None
            with batches.stepping():
                gateway.engine.version = batch.step
                await batches.step_done(batch.step, {})
            admitted: list[EpisodeBegun] = []
            while len(admitted) < 8:
                done, _ = await asyncio.wait(later, timeout=25, return_when=asyncio.FIRST_COMPLETED)
                assert done
                admitted += [each.result() for each in done]
                later = [each for each in later if each not in done]
            for number, begun in enumerate(admitted):
                await finish(gateway, begun, number)
        groups = Counter(record.group_key for record in batches.waiting.values())
        found = await gateway.accounting()
        assert (found["trained"], found["waiting"], found["stale"]) == (16, 8, 0)
        assert sorted(groups.values()) == [4, 4]
