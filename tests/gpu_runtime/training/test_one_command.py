"""One command at a time: the result of one whose caller is gone is not the next one's."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from gpu_runtime.training.ranks import RankProcesses
from support.waiting import eventually


class Ranks(RankProcesses):
    """Started ranks that work until ``go``."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(world_size=1), lambda *_: None)  # type: ignore[arg-type]
        self.processes, self.go, self.seen = [object()], threading.Event(), list[str]()

    async def do(self, command: str) -> str:
        return await self.call(command, deadline_s=1)

    def _send_and_receive(
        self, command: str, arguments: tuple[object, ...], deadline_s: float
    ) -> Any:
        self.seen.append(f"{command} begins")
        assert self.go.wait(20)
        self.seen.append(f"{command} ends")
        return command


async def test_a_command_waits_for_the_result_of_one_whose_caller_is_gone() -> None:
    ranks = Ranks()
    given_up = asyncio.create_task(ranks.do("forward"))
    await eventually(lambda: ranks.seen)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert given_up.cancelled(), "the caller does not wait for it"
    following = asyncio.create_task(ranks.do("save_state"))
    never = asyncio.create_task(ranks.do("publish"))
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert ranks.seen == ["forward begins"]
    never.cancel()
    ranks.go.set()
    assert await following == "save_state"
    assert ranks.seen == ["forward begins", "forward ends", "save_state begins", "save_state ends"]
