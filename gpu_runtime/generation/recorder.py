"""What a call needs of the record of its episode, and calls without one."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.journal.records import CallRecord
from gpu_runtime.rendering.history.conversation import Conversation
from gpu_runtime.rendering.tool_formats import ToolFormat


class Recorder(Protocol):
    """What becomes of calls: episodes.call_recorder keeps them, ForgottenCalls does not."""

    async def wait_to_sample(self, episode: OpenEpisode) -> None: ...

    def begun(self, episode: OpenEpisode, task: asyncio.Task[None]) -> None: ...

    async def make_eval(self, episode: OpenEpisode, reason: str) -> None: ...

    def name_group(self, episode: OpenEpisode, prompt_ids: Sequence[int]) -> None: ...

    async def conversation(
        self, episode: OpenEpisode, tool_format: ToolFormat | None
    ) -> Conversation: ...

    async def calls(self, episode: OpenEpisode) -> list[CallRecord]: ...

    async def record(
        self, episode: OpenEpisode, call: CallRecord, *, parent_prefix_length: int
    ) -> None: ...

    async def of_request(self, episode: OpenEpisode, request_id: str) -> CallRecord | None: ...

    async def check_room(self) -> None: ...


class ForgottenCalls:
    """Recorder of calls that no trainer sees: none is kept, and none continues another. ``on_over``
    is called at the end of each, however it ended.
    """

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over = on_over

    async def wait_to_sample(self, episode: OpenEpisode) -> None:
        """No step pauses these calls."""

    def begun(self, episode: OpenEpisode, task: asyncio.Task[None]) -> None:
        """A runtime with a call under way is not idle."""
        episode.calls.add(task)
        task.add_done_callback(lambda done: self._over(episode, done))

    async def make_eval(self, episode: OpenEpisode, reason: str) -> None:
        """It is evaluated from the first."""

    def name_group(self, episode: OpenEpisode, prompt_ids: Sequence[int]) -> None:
        """It is in no group."""

    async def conversation(
        self, episode: OpenEpisode, tool_format: ToolFormat | None
    ) -> Conversation:
        return Conversation()

    async def calls(self, episode: OpenEpisode) -> list[CallRecord]:
        return []

    async def record(
        self, episode: OpenEpisode, call: CallRecord, *, parent_prefix_length: int
    ) -> None:
        """What was sampled is the client's alone."""

    async def of_request(self, episode: OpenEpisode, request_id: str) -> CallRecord | None:
        return None

    async def check_room(self) -> None:
        """Nothing is written."""

    def _over(self, episode: OpenEpisode, task: asyncio.Task[None]) -> None:
        episode.calls.discard(task)
        self._on_over()
