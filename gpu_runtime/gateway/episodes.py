"""The ledger of episodes: who may begin, call, end; what expires; what waits to be trained.

The journal is the truth and memory its index: after a restart everything here is rebuilt from it, and open episodes
stay open. All methods run on one asyncio loop.
"""

import asyncio
import hashlib
import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpu_runtime.gateway import timelines
from gpu_runtime.gateway.batches import Batches
from gpu_runtime.gateway.call_views import episode_calls
from gpu_runtime.gateway.disk import Bell, Disk
from gpu_runtime.gateway.entrance import Entrance
from gpu_runtime.gateway.errors import BadRequest, EpisodeClosed, GatewayError, NotFound, OutputConflict, episode_closed
from gpu_runtime.gateway.keys import EpisodeKeys
from gpu_runtime.gateway.open_episode import OpenEpisode
from gpu_runtime.gateway.outputs import check_output
from gpu_runtime.gateway.splicing import Conversation
from gpu_runtime.gateway.tool_calls import ToolFormat
from gpu_runtime.journal import Journal
from gpu_runtime.journal_records import CallRecord, EpisodeRecord, pack_ids
from tinkerscript.wire.calls import EpisodeCalls
from tinkerscript.wire.episodes import (
    EpisodeBegin,
    EpisodeBegun,
    EpisodeList,
    EpisodeState,
    EpisodeView,
    WorkflowOutput,
)
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.sessions import Accounting

HOLD_S = 20.0  # how long a begin may be held before it is told to ask again
SWEEP_S = 1.0
log = logging.getLogger(__name__)


class Episodes:
    """One session's episodes. ``start`` runs the clocks; ``close`` stops them and finishes what is being written.

    ``batches`` is what the training loop takes from. ``last_activity_at`` is Unix time.
    """

    def __init__(self, journal: Journal, assignment: Assignment, *, now: Callable[[], float] = time.time) -> None:
        self._journal, self._now = journal, now
        self._config = assignment.config
        self._keys = EpisodeKeys(assignment, now)
        self._disk, self._bell = Disk(), Bell()
        self._open = {record.id: OpenEpisode.of(record, now()) for record in journal.open_episodes()}
        self._clocks: asyncio.Task | None = None
        self.batches = Batches(journal, self._config, self._disk, self._bell)
        self._entrance = Entrance(self._config, self.batches, self._open, self._bell, now)
        self.last_activity_at = now()

    async def start(self) -> None:
        """Begin to watch the clocks."""
        self._clocks = asyncio.create_task(self._watch_clocks())

    async def close(self) -> None:
        """Stop the clocks and the calls in flight; open episodes stay open in the journal. Safe to call twice."""
        if self._clocks:
            self._clocks.cancel()
            await asyncio.gather(self._clocks, return_exceptions=True)
        for episode in list(self._open.values()):
            await episode.stop_calls()
        self._disk.close()

    # What clients do

    async def begin(
        self, request: EpisodeBegin, *, begin_key: str | None = None, key_id: str = "", hold_s: float = HOLD_S
    ) -> EpisodeBegun:
        """A new episode and its key (it names ``key_id``) once it is on disk; the same for a repeated ``begin_key``.

        Held for up to ``hold_s`` seconds while it could only be left over. Raises NotAdmitted, DiskFull.
        """
        if begin_key and (earlier := await self._disk.run(self._journal.episode_of_begin, begin_key)):
            return self._keys.begun(earlier, self.batches.policy_version, key_id)
        if request.supersedes in self._open:
            await self._drop(self._open[request.supersedes], self._journal.abandon, "superseded")
        episode = await self._entrance.enter(request, hold_s=hold_s)
        self.last_activity_at = self._now()
        # To the end even if the caller goes: what is in the journal must be known here.
        record = await asyncio.shield(asyncio.ensure_future(self._begin(episode, request, begin_key)))
        return self._keys.begun(record, self.batches.policy_version, key_id)

    async def end(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        """Complete an episode; the answer says what became of it and is on disk before it is given.

        Raises NotFound, EpisodeClosed, EmptyEpisode, OutputConflict, BadRequest, DiskFull.
        """
        episode = self._open.get(episode_id)
        if episode is None:
            return await self._end_again(episode_id, output)
        async with episode.lock:
            if episode_id in self._open:
                record = await self._close(episode, self._complete, output)
                if not record.eval:
                    record = await self.batches.add(record)
                return record.view()
        return await self._end_again(episode_id, output)

    async def abandon(self, episode_id: str, reason: str) -> EpisodeView:
        """Give an episode up; one that is over without a sample stays as it is. Raises NotFound, OutputConflict."""
        if episode_id in self._open:
            await self._drop(self._open[episode_id], self._journal.abandon, reason)
        record = await self._record(episode_id)
        if record.state is EpisodeState.COMPLETED:
            raise OutputConflict(f"episode {episode_id} has ended; its reward stands")
        return record.view()

    async def heartbeat(self, episode_id: str) -> EpisodeView:
        """The agent is alive: its idle clock starts again. Raises NotFound, EpisodeClosed."""
        record = await self._record(episode_id)
        if (episode := self._open.get(episode_id)) is None:
            raise episode_closed(record)
        self._touch(episode)
        return self._shown(record)

    async def view(self, episode_id: str) -> EpisodeView:
        """One episode. Raises NotFound."""
        return self._shown(await self._record(episode_id))

    async def page(self, *, cursor: str | None = None, limit: int = 100) -> EpisodeList:
        """One page, newest first. Raises BadRequest on a cursor that is not one of ours."""
        before = _number(cursor)
        records = await self._disk.run(self._journal.episodes, before=before, limit=limit + 1)
        more = str(records[limit - 1].seq) if len(records) > limit else None
        return EpisodeList(items=[record.view(brief=True) for record in records[:limit]], next_cursor=more)

    async def accounting(self) -> Accounting:
        """Where every begun episode is."""
        return await self._disk.run(self._journal.accounting)

    async def calls(self, episode_id: str, *, cursor: str | None = None, limit: int = 50) -> EpisodeCalls:
        """One page of an episode's calls with their tokens, in the order of recording, and the report of them all.

        Raises NotFound, BadRequest on a cursor that is not one of ours.
        """
        start = _number(cursor) or 0
        await self._record(episode_id)
        calls = await self._disk.run(self._journal.calls, episode_id)
        return await asyncio.to_thread(episode_calls, calls, start=start, limit=limit)

    # What calls need

    def authenticate(self, key: str) -> OpenEpisode:
        """The open episode that ``key`` belongs to. Raises BadKey, EpisodeClosed."""
        episode_id = self._keys.episode_of(key)
        episode = self._open.get(episode_id)
        if episode is None or episode.closing or episode.expiry(self._now(), self._config.episode_idle_timeout_s):
            raise EpisodeClosed(f"episode {episode_id} is over")
        return episode

    async def call_gate(self, episode: OpenEpisode) -> None:
        """Wait until the episode's calls may be sampled. Raises NotAdmitted, EpisodeClosed."""
        await self.batches.wait_for_calls()
        if episode.closing or episode.id not in self._open:
            raise EpisodeClosed(f"episode {episode.id} is over")

    def call_begun(self, episode: OpenEpisode, task: asyncio.Task) -> None:
        """``task`` answers a call of ``episode``: it keeps the episode from being idle and ends with it."""
        self._touch(episode)
        episode.calls.add(task)
        task.add_done_callback(lambda done: self._call_over(episode, done))

    def group_found(self, episode: OpenEpisode, prompt_ids: Sequence[int]) -> None:
        """The first prompt of an episode that has no task names its group."""
        if episode.group_key is None:
            episode.group_key = "prompt:" + hashlib.sha256(pack_ids(prompt_ids)).hexdigest()[:32]
            self._bell.ring()

    async def conversation(self, episode: OpenEpisode, tool_format: ToolFormat | None) -> Conversation:
        """What later calls of the episode can continue; read from the journal after a restart."""
        if episode.conversation is None:
            calls = await self._disk.run(self._journal.calls, episode.id)
            # Another call may have read it meanwhile, and added to it since.
            episode.conversation = episode.conversation or Conversation(calls, tool_format)
        return episode.conversation

    async def call_record(self, episode: OpenEpisode, call: CallRecord, *, parent_prefix_length: int) -> None:
        """Keep a call; it is on disk when this returns. Raises EpisodeNotOpen, DiskFull."""
        await self._disk.run(
            self._journal.record_call, call, group_key=episode.group_key, parent_prefix_length=parent_prefix_length
        )
        versions = [version for answer in call.completions for version in answer.versions_T]
        if call.status == "completed" and versions:
            known = [] if episode.version_first is None else [episode.version_first]
            episode.version_first = min([*known, *versions])

    async def recorded_call(self, episode: OpenEpisode, request_id: str) -> CallRecord | None:
        """The call that answered this request id before, if any."""
        return await self._disk.run(self._journal.call_of_request, episode.id, request_id)

    async def check_room(self) -> None:
        """Raises DiskFull when a call could be sampled but not kept."""
        await self._disk.run(self._journal.check_room)

    # Inside

    def _call_over(self, episode: OpenEpisode, task: asyncio.Task) -> None:
        episode.calls.discard(task)
        self._touch(episode)

    def _touch(self, episode: OpenEpisode) -> None:
        episode.last_seen = self.last_activity_at = self._now()

    async def _begin(self, episode: OpenEpisode, request: EpisodeBegin, begin_key: str | None) -> EpisodeRecord:
        try:
            record = await self._disk.run(
                self._journal.begin,
                episode.id,
                task=request.task,
                eval=request.eval,
                deadline_at=episode.deadline_at,
                begin_key=begin_key,
            )
        except GatewayError:
            self._entrance.leave(episode)
            raise
        except sqlite3.IntegrityError:
            # The same begin was sent twice at once, and the other one came first.
            self._entrance.leave(episode)
            earlier = await self._disk.run(self._journal.episode_of_begin, begin_key)
            if earlier is None:
                raise
            return earlier
        return record

    async def _close(self, episode: OpenEpisode, write: Callable[..., EpisodeRecord], *values: Any) -> EpisodeRecord:
        """Stop the calls, then ``write``; the caller holds the lock. A refused write leaves the episode open."""
        episode.closing = True
        try:
            await episode.stop_calls()
            record = await self._disk.run(write, episode.id, *values)
        finally:
            episode.closing = False
        del self._open[episode.id]
        self.last_activity_at = self._now()
        self._bell.ring()
        return record

    async def _drop(self, episode: OpenEpisode, write: Callable[..., EpisodeRecord], reason: str) -> None:
        async with episode.lock:
            if episode.id in self._open:
                await self._close(episode, write, reason)

    def _complete(self, episode_id: str, output: WorkflowOutput) -> EpisodeRecord:
        calls = self._journal.calls(episode_id)
        check_output(output, calls)
        return self._journal.end(episode_id, output, timelines.report(calls))

    async def _end_again(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        record = await self._record(episode_id)
        if record.output is None:
            raise episode_closed(record)
        if record.output != output:
            raise OutputConflict(f"episode {episode_id} has ended with another output; that one stands")
        return record.view()

    def _shown(self, record: EpisodeRecord) -> EpisodeView:
        episode = self._open.get(record.id)
        return record.view(idle_at=episode.idle_at(self._config.episode_idle_timeout_s) if episode else None)

    async def _record(self, episode_id: str) -> EpisodeRecord:
        record = await self._disk.run(self._journal.episode, episode_id)
        if record is None:
            raise NotFound(f"this session has no episode {episode_id}")
        return record

    async def _watch_clocks(self) -> None:
        while True:
            try:
                for episode in list(self._open.values()):
                    if reason := episode.expiry(self._now(), self._config.episode_idle_timeout_s):
                        await self._drop(episode, self._journal.expire, reason)
            except Exception:  # the top of this loop: a full disk now must not stop the clocks for ever
                log.exception("An episode could not be expired; its clock is read again.")
            idle_s = self._config.episode_idle_timeout_s
            due_in_s = min((e.due_at(idle_s) for e in self._open.values()), default=math.inf) - self._now()
            await asyncio.sleep(min(SWEEP_S, max(0.01, due_in_s)))


def _number(cursor: str | None) -> int | None:
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise BadRequest("cursor is not one that this session answered", param="cursor")
    return int(cursor) if cursor is not None else None
