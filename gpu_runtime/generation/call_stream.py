"""One call while it is sampled: its deltas as they come, for any number of readers, and its end."""

import asyncio
from collections.abc import AsyncIterator

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.text_prompt import PreparedText
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal.records import CallRecord, Completion, new_call_id
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import GatewayError

Prepared = PreparedChat | PreparedText
READ_S = 3600.0  # a reader checks again at least this often


class CallStream:
    """The call ``prepared`` of ``episode``. ``record`` is set once the call is on disk, ``error``
    if it will never be. A call that lost its last reader is cancelled: no one would get its answer.
    """

    def __init__(self, episode: OpenEpisode, prepared: Prepared) -> None:
        self.id, self.episode, self.prepared = new_call_id(), episode, prepared
        self.prompt_ids: tuple[int, ...] = ()
        self.deltas: list[tuple[int, Delta]] = []
        self.record: CallRecord | None = None
        self.error: GatewayError | None = None
        self.task: asyncio.Task | None = None
        self._readers = 0
        self._changes = ChangeNotifier()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.record is not None or self.error is not None

    def answers(self) -> list[list[Delta]]:
        """What was sampled so far, by the number of the answer."""
        found: list[list[Delta]] = [[] for _ in range(self.prepared.choices)]
        for choice, delta in self.deltas:
            found[choice].append(delta)
        return found

    def push(self, choice: int, delta: Delta) -> None:
        """The engine made a piece of answer number ``choice``."""
        self.deltas.append((choice, delta))
        self._changes.notify()

    def finish(self, record: CallRecord) -> None:
        """The call is on disk."""
        self.record, self.id = record, record.id
        self._changes.notify()

    def replay(self, record: CallRecord) -> None:
        """Become the recorded call that the same request got before."""
        self.prompt_ids = record.prompt_ids_P
        self.deltas = [(answer.choice, _as_delta(answer)) for answer in record.completions]
        self.finish(record)

    def fail(self, error: GatewayError) -> None:
        """There will be no answer, or not the rest of it."""
        self.error = error
        self._changes.notify()

    def attach(self) -> None:
        """Count one more reader: the call goes on while there is one."""
        self._readers += 1

    def detach(self) -> None:
        """One reader less; after the last the call is cancelled if it still runs."""
        self._readers -= 1
        if self._readers == 0 and self.task is not None and not self.is_over:
            self.task.cancel()

    def read_prompt(self, prompt_ids: tuple[int, ...]) -> None:
        """The engine is about to read ``prompt_ids``."""
        self.prompt_ids = prompt_ids
        self._changes.notify()

    async def begun(self, patience_s: float | None = None) -> None:
        """Wait for the first delta, or the end; with ``patience_s`` not longer than that, once the
        prompt is known.
        Raises the call's error if it failed before that."""
        clock = asyncio.get_running_loop().time
        until = None if patience_s is None else clock() + patience_s
        while not self.deltas and not self.is_over:
            left_s = READ_S if until is None or not self.prompt_ids else until - clock()
            if left_s <= 0:
                return
            await self._changes.wait(left_s)
        if not self.deltas and self.error:
            raise self.error

    async def finished(self) -> CallRecord:
        """Wait until the call is on disk. Raises the call's error."""
        async for _ in self.read():
            pass
        assert self.record is not None, "read() ends with a record or raises"
        return self.record

    async def read(self) -> AsyncIterator[tuple[int, Delta]]:
        """Every delta from the first one on; ends when the call is on disk. Raises the call's
        error.
        """
        seen = 0
        while True:
            while seen < len(self.deltas):
                yield self.deltas[seen]
                seen += 1
            if self.error:
                raise self.error
            if self.record:
                return
            await self._changes.wait(READ_S)


def _as_delta(answer: Completion) -> Delta:
    return Delta(
        text=answer.text,
        token_ids_T=answer.token_ids_T,
        logprobs_T=answer.logprobs_T,
        version=answer.versions_T[-1] if answer.versions_T else 0,
        finish_reason=answer.finish_reason,
        top_logprobs_T=answer.top_logprobs_T,
        stop_reason=answer.stop_reason,
    )
