"""A call that is in flight while a step runs and its weights are handed over: a whole runtime with fakes."""

import asyncio
from pathlib import Path

from gpu_runtime.journal.journal import Journal
from support.runtime_harness import plane_assign
from support.waiting import eventually


async def test_a_long_call_holds_up_no_step_and_each_of_its_tokens_keeps_its_version(
    plane, runtime, model: Path
) -> None:
    plane_assign(plane, model, max_staleness=1)
    async with runtime(plane) as it:
        it.engine.keeps_calls = it.engine.hang = True
        long = asyncio.create_task(it.play("a", 0.0))
        await eventually(lambda: it.engine.requests and it.engine.requests[0].token_ids)
        it.engine.hang = False
        await it.play_groups("b", "c")
        await it.stepped(1)
        assert not long.done() and it.engine.version == 1, "the step and its hand-over came while it was in flight"
        it.engine.released.set()
        await long
        await it.play("a", 1.0)
        await it.play_groups("d")
        await it.stepped(2)
        await it.end()
    journal = Journal(it.volume / "journal.sqlite3")
    record = next(each for each in journal.episodes.page(limit=20) if each.id == long.result())
    (call,) = journal.calls.of_episode(record.id)
    journal.close()
    (answer,) = call.completions
    sampled = it.engine.requests[0]
    assert (list(answer.token_ids_T), len(answer.versions_T)) == (sampled.token_ids, len(sampled.token_ids))
    assert answer.versions_T[:2] == (0, 0) and set(answer.versions_T[2:]) == {1}
    assert (record.version_first, record.version_last, record.trained_step) == (0, 1, 2)
