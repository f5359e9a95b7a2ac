"""The ledger of episodes: which begin, end, are abandoned or expire, and what each of them has
become.

The journal is the truth and memory its index: after a restart everything here is rebuilt from it,
and open episodes stay open. All methods run on one asyncio loop.
"""

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpu_runtime.control_plane.agent import Recorded
from gpu_runtime.episodes.admission_queue import AdmissionQueue
from gpu_runtime.episodes.advice.steps import Notices
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.call_recorder import CallRecorder
from gpu_runtime.episodes.call_views import episode_calls, report
from gpu_runtime.episodes.config_changes import ConfigChanges
from gpu_runtime.episodes.kept_batches import Recall, none_recalled
from gpu_runtime.episodes.keys import EpisodeKeys
from gpu_runtime.episodes.open_episodes import OpenEpisode, OpenEpisodes
from gpu_runtime.episodes.output_check import check_output
from gpu_runtime.episodes.progress import EpisodeNoted, EpisodeOver, calls_refused
from gpu_runtime.episodes.repeated_prompts import RepeatedPrompts
from gpu_runtime.events import Events
from gpu_runtime.journal.journal import Journal, to_its_end
from gpu_runtime.journal.records import CallRecord, EpisodeRecord
from gpu_runtime.journal.removal import ERASED
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import BadRequest, EpisodeClosed, GatewayError, NotFound, OutputConflict
from tinkerscript.wire.episodes import (
    EpisodeBegin,
    EpisodeBegun,
    EpisodeList,
    EpisodesHeartbeatResult,
    EpisodeState,
    EpisodeView,
    RefusedCalls,
    WorkflowOutput,
)
from tinkerscript.wire.reading.calls import EpisodeCalls
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.sessions import Accounting

HOLD_S = 20.0  # how long a begin may be held before the client must send it again
SWEEP_S = 1.0
log = logging.getLogger(__name__)


class Episodes:
    """One session's episodes. ``start`` runs the clocks; ``close`` stops them and finishes what is
    being written.

    ``batches`` is what the training loop takes from, ``recorder`` what the calls of episodes need.
    ``recall`` reads the calls that the journal was pruned of.
    """

    def __init__(
        self,
        journal: Journal,
        assignment: Assignment,
        *,
        events: Events,
        recall: Recall = none_recalled,
        now: Callable[[], float] = time.time,
    ) -> None:
        config = assignment.config
        self._journal, changes = journal, ChangeNotifier()
        self._keys = EpisodeKeys(assignment, now)
        self.open = OpenEpisodes(
            journal.episodes.open(), idle_timeout_s=config.episode_idle_timeout_s, now=now
        )
        self.batches = Batches(journal, config, changes, self.open, events, recall)
        self.config_changes = ConfigChanges(journal, config, self.batches)
        self._repeated = RepeatedPrompts(config.grpo_n)
        self.notices = Notices()
        events.subscribe(Recorded, lambda event: self.notices.add(event.data))
        self.recorder = CallRecorder(
            journal,
            self.open,
            self.batches,
            changes,
            self._repeated,
            events,
        )
        self._admission = AdmissionQueue(config, self.batches, self.open, changes)
        self._changes = changes
        # told of at the first, and each time that their number has doubled
        self._refused_episodes = 0
        self._events = events
        self._clocks: asyncio.Task[None] | None = None

    def authenticate(self, key: str) -> OpenEpisode:
        """The open episode that ``key`` belongs to. Raises BadKey, EpisodeClosed."""
        episode_id = self._keys.episode_of(key)
        episode = self.open.get(episode_id)
        if episode is None or episode.closing or self.open.expiry(episode):
            raise EpisodeClosed(f"episode {episode_id} is over")
        return episode

    async def start(self) -> None:
        """Start to watch deadlines and idle times."""
        self._clocks = asyncio.create_task(self._watch_clocks())

    async def close(self) -> None:
        """Stop the clocks and the calls in flight; open episodes stay open in the journal. What was
        being written is on disk when this returns. Safe to call twice.
        """
        if self._clocks:
            self._clocks.cancel()
            await asyncio.gather(self._clocks, return_exceptions=True)
        for episode in self.open.all():
            await episode.stop_calls()
        await self._journal.run(lambda: None)  # after all that its thread was given before

    async def begin(
        self,
        request: EpisodeBegin,
        *,
        begin_key: str | None = None,
        key_id: str = "",
        hold_s: float = HOLD_S,
    ) -> EpisodeBegun:
        """A new episode and its key (it names ``key_id``) once it is on disk; the same for a
        repeated ``begin_key``.

        Held for up to ``hold_s`` seconds while it could only be left over. Raises NotAdmitted,
        VolumeFull.
        """
        if begin_key and (
            earlier := await self._journal.run(self._journal.episodes.of_begin, begin_key)
        ):
            return self._keys.begun(earlier, self.batches.policy_version, key_id)
        if request.supersedes and (superseded := self.open.get(request.supersedes)):
            await self._drop(superseded, self._journal.episodes.abandon, "superseded")
        episode = await self._admission.enter(request, hold_s=hold_s)
        self.open.touch()
        # To the end even if the caller goes: what is in the journal must be known here.
        record = await asyncio.shield(
            asyncio.ensure_future(self._begin(episode, request, begin_key))
        )
        return self._keys.begun(record, self.batches.policy_version, key_id)

    async def end(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        """Complete an episode; returns what became of it, once that is on disk.

        Raises NotFound, EpisodeClosed, EmptyEpisode, OutputConflict, BadRequest, VolumeFull.
        """
        episode = self.open.get(episode_id)
        if episode is None:
            return await self._end_again(episode_id, output)
        ended = await to_its_end(self._end(episode, output))
        return ended or await self._end_again(episode_id, output)

    async def abandon(self, episode_id: str, reason: str) -> EpisodeView:
        """Give an episode up; one that is over without a sample stays as it is. Raises NotFound,
        OutputConflict.
        """
        if episode := self.open.get(episode_id):
            await self._drop(episode, self._journal.episodes.abandon, reason)
        record = await self._record(episode_id)
        if record.state is EpisodeState.COMPLETED:
            raise OutputConflict(f"episode {episode_id} has ended; its reward stands")
        return await self._shown(record)

    async def heartbeat(self, episode_id: str) -> EpisodeView:
        """The agent is alive: its idle time starts again. Raises NotFound, EpisodeClosed."""
        record = await self._record(episode_id)
        if (episode := self.open.get(episode_id)) is None:
            raise _closed(record)
        self.open.touch(episode)
        return await self._shown(record)

    def heartbeats(self, episode_ids: Sequence[str]) -> EpisodesHeartbeatResult:
        """Agents work on these: their idle times start again. From memory alone, for it comes
        often.
        """
        found = {id_: self.open.get(id_) for id_ in episode_ids}
        still = {id_: episode for id_, episode in found.items() if episode is not None}
        for episode in still.values():
            self.open.touch(episode)
        warnings = {
            id_: episode.warning for id_, episode in still.items() if episode.warning is not None
        }
        return EpisodesHeartbeatResult(
            over=[id_ for id_ in found if id_ not in still], warnings=warnings
        )

    async def erase(self, episode_id: str, *, states: tuple[int, int]) -> None:
        """Take what is kept of an episode out of memory and journal; again, it does the same.
        Raises as ``Batches``.
        """
        record = await self._journal.run(self._journal.episodes.get, episode_id)
        if record is None:
            raise NotFound(f"this session has no episode {episode_id}")
        await self.batches.erase(record, states=states)

    async def view(self, episode_id: str) -> EpisodeView:
        """One episode. Raises NotFound."""
        return await self._shown(await self._record(episode_id))

    async def page(self, *, cursor: str | None = None, limit: int = 100) -> EpisodeList:
        """One page, newest first. Raises BadRequest on a cursor that no page returned."""
        before = _number(cursor)
        records = await self._journal.run(
            self._journal.episodes.page, before=before, limit=limit + 1
        )
        more = str(records[limit - 1].seq) if len(records) > limit else None
        kept = [record for record in records[:limit] if record.reason != ERASED]
        refused = await self._journal.run(
            self._journal.episodes.refused_of, [record.id for record in kept]
        )
        items = [record.view(brief=True, refused=refused.get(record.id)) for record in kept]
        return EpisodeList(items=items, next_cursor=more)

    async def accounting(self) -> Accounting:
        """Where every begun episode is."""
        return await self._journal.run(self._journal.episodes.accounting)

    async def calls(
        self, episode_id: str, *, cursor: str | None = None, limit: int = 50
    ) -> EpisodeCalls:
        """One page of an episode's calls with their tokens, in the order of recording, and the
        report of them all.

        Raises NotFound, BadRequest on a cursor that no page returned, and as ``KeptBatches`` does.
        """
        start = _number(cursor) or 0
        await self._record(episode_id)
        calls = await self.batches.calls_of(episode_id)
        return await asyncio.to_thread(episode_calls, calls, start=start, limit=limit)

    async def recorded(self, episode_id: str) -> tuple[EpisodeRecord, Sequence[CallRecord]]:
        """An episode and its calls as they were recorded. Raises NotFound, and as ``KeptBatches``
        does.
        """
        record = await self._record(episode_id)
        return record, await self.batches.calls_of(episode_id)

    async def _begin(
        self, episode: OpenEpisode, request: EpisodeBegin, begin_key: str | None
    ) -> EpisodeRecord:
        try:
            asked: dict[str, Any] = {
                "task": request.task,
                "eval": request.eval,
                "deadline_at": episode.deadline_at,
            }
            begin = self._journal.episodes.begin
            return await self._journal.run(begin, episode.id, begin_key=begin_key, **asked)
        except GatewayError:
            self._admission.leave(episode)
            raise
        except sqlite3.IntegrityError:
            # The same begin was sent twice at once, and the other one came first.
            self._admission.leave(episode)
            earlier = await self._journal.run(self._journal.episodes.of_begin, begin_key)
            if earlier is None:
                raise
            return earlier

    async def _close(
        self, episode: OpenEpisode, write: Callable[..., EpisodeRecord], *values: Any
    ) -> EpisodeRecord:
        """Stop the calls, then ``write``; the caller holds the lock. A refused write leaves the
        episode open.
        """
        episode.closing = True
        try:
            await episode.stop_calls()
            record = await self._journal.run(self._written, episode, write, *values)
        finally:
            episode.closing = False
        self.open.remove(episode.id)
        self._repeated.forget(episode.id)
        self.open.touch()
        self._events.publish(EpisodeOver(record))
        self._changes.notify()
        if (refused := episode.refused.view()) is not None:
            self._refused_episodes += 1
            if self._refused_episodes & (self._refused_episodes - 1) == 0:
                episode.warning = episode.warning or refused.sentence
                self._events.publish(EpisodeNoted(calls_refused(episode.id, refused)))
        return record

    async def _end(self, episode: OpenEpisode, output: WorkflowOutput) -> EpisodeView | None:
        """None if it was over when its turn came. It leaves the open ones and joins those that wait
        in one move.
        """
        async with episode.lock:
            if episode.id not in self.open:
                return None
            record = await self._close(episode, self._complete, output)
            if not record.eval:
                record = await self.batches.add(record)
            return record.view(
                warning=episode.warning or self.notices.take(), refused=episode.refused.view()
            )

    async def _drop(
        self, episode: OpenEpisode, write: Callable[..., EpisodeRecord], reason: str
    ) -> None:
        async def drop() -> None:
            async with episode.lock:
                if episode.id in self.open:
                    await self._close(episode, write, reason)

        await to_its_end(drop())

    def _written(
        self, episode: OpenEpisode, write: Callable[..., EpisodeRecord], *values: Any
    ) -> EpisodeRecord:
        """What ``write`` returns; what was refused of its calls is kept with it."""
        if (refused := episode.refused.view()) is None:
            return write(episode.id, *values)
        with self._journal.database.transaction():
            self._journal.episodes.refused_keep(episode.id, refused)
            return write(episode.id, *values)

    def _complete(self, episode_id: str, output: WorkflowOutput) -> EpisodeRecord:
        calls = self._journal.calls.of_episode(episode_id)
        check_output(output, calls, self._journal.episodes.refused_of([episode_id]).get(episode_id))
        return self._journal.episodes.end(episode_id, output, report(calls))

    async def _end_again(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        record = await self._record(episode_id)
        if record.output is None:
            raise _closed(record)
        if output not in (
            record.output,
            await self._journal.run(self._journal.rewards.as_ended, record),
        ):
            raise OutputConflict(
                f"episode {episode_id} has ended with another output; that one stands"
            )
        return record.view(refused=await self._refused(record.id))

    async def _shown(self, record: EpisodeRecord) -> EpisodeView:
        episode = self.open.get(record.id)
        refused = episode.refused.view() if episode else await self._refused(record.id)
        warning = (episode and episode.warning) or (refused.sentence if refused else None)
        idle_at = episode.idle_at(self.open.idle_timeout_s) if episode else None
        return record.view(idle_at=idle_at, warning=warning, refused=refused)

    async def _refused(self, episode_id: str) -> RefusedCalls | None:
        return (await self._journal.run(self._journal.episodes.refused_of, [episode_id])).get(
            episode_id
        )

    async def _record(self, episode_id: str) -> EpisodeRecord:
        record = await self._journal.run(self._journal.episodes.get, episode_id)
        if record is None or record.reason == ERASED:
            raise NotFound(f"this session has no episode {episode_id}")
        return record

    async def _watch_clocks(self) -> None:
        while True:
            try:
                for episode in self.open.all():
                    if reason := self.open.expiry(episode):
                        await self._drop(episode, self._journal.episodes.expire, reason)
            except (
                Exception
            ):  # the top of this loop: a full disk now must not stop the clocks for ever
                log.exception("An episode could not be expired; the next sweep tries again.")
            due_at = min(
                (e.due_at(self.open.idle_timeout_s) for e in self.open.all()), default=math.inf
            )
            await asyncio.sleep(min(SWEEP_S, max(0.01, due_at - self.open.now())))


def _closed(record: EpisodeRecord) -> EpisodeClosed:
    why = f" ({record.reason})" if record.reason else ""
    return EpisodeClosed(f"episode {record.id} is {record.state.value}{why}")


def _number(cursor: str | None) -> int | None:
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise BadRequest("cursor is not one that this session returned", param="cursor")
    return int(cursor) if cursor is not None else None
