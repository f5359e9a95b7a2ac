"""Coroutines that run beside a block of code: what runs as long as the block does, and ends it if
it fails.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def until_one_fails(background: Sequence[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run ``background`` beside the block. The first of them to raise ends the block with its
    error.
    """
    tasks = [asyncio.create_task(job) for job in background]
    block = asyncio.current_task()
    assert block is not None, "a coroutine runs in a task"
    failed: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not failed:
            failed.append(error)
            block.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
