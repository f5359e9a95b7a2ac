"""What a call needs of its episode: permission to sample, what it can continue, its record on
disk.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.open_episodes import OpenEpisode, OpenEpisodes
from gpu_runtime.episodes.progress import EpisodeNoted
from gpu_runtime.episodes.repeated_prompts import RepeatedPrompts, attempts_in_one_episode
from gpu_runtime.events import Events
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import PROMPT_KEY, CallRecord
from gpu_runtime.journal.token_values import pack_ids
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import EpisodeClosed
from gpu_runtime.rendering.history.conversation import Conversation
from gpu_runtime.rendering.tool_formats import ToolFormat


class CallRecorder:
    """All methods run on one asyncio loop."""

    def __init__(
        self,
        journal: Journal,
        open_episodes: OpenEpisodes,
        batches: Batches,
        changes: ChangeNotifier,
        repeated: RepeatedPrompts,
        events: Events,
    ) -> None:
        self._journal, self._open = journal, open_episodes
        self._batches, self._changes = batches, changes
        self._repeated, self._events = repeated, events

    async def wait_to_sample(self, episode: OpenEpisode) -> None:
        """Wait until the episode's calls may be sampled. Raises NotAdmitted, EpisodeClosed."""
        await self._batches.wait_for_calls()
        if episode.closing or episode.id not in self._open:
            raise EpisodeClosed(f"episode {episode.id} is over")
        if episode.version_sampling is None:
            episode.version_sampling = self._batches.policy_version

    def begun(self, episode: OpenEpisode, task: asyncio.Task[None]) -> None:
        """``task`` runs a call of ``episode``: it keeps the episode from being idle and ends with
        it.
        """
        self._open.touch(episode)
        episode.calls.add(task)
        task.add_done_callback(lambda done: self._over(episode, done))

    async def make_eval(self, episode: OpenEpisode, reason: str) -> None:
        """From now on ``episode`` is evaluated and not trained: on disk when this returns. Raises
        EpisodeNotOpen.
        """
        if not episode.eval:
            await self._journal.run(self._journal.episodes.make_eval, episode.id, reason)
            episode.eval, episode.not_trained = True, reason
            self._changes.notify()  # it fills no group any more

    def name_group(self, episode: OpenEpisode, prompt_ids: Sequence[int]) -> None:
        """The first prompt of an episode that has no task names its group."""
        if episode.group_key is None:
            episode.group_key = PROMPT_KEY + hashlib.sha256(pack_ids(prompt_ids)).hexdigest()[:32]
            self._changes.notify()

    async def conversation(
        self, episode: OpenEpisode, tool_format: ToolFormat | None
    ) -> Conversation:
        """What later calls of the episode can continue; read from the journal after a restart."""
        if episode.conversation is None:
            calls = await self._journal.run(self._journal.calls.of_episode, episode.id)
            # Another call may have read it meanwhile, and added to it since.
            episode.conversation = episode.conversation or Conversation(calls, tool_format)
        return episode.conversation

    async def calls(self, episode: OpenEpisode) -> list[CallRecord]:
        """Every call of the episode so far."""
        return await self._journal.run(self._journal.calls.of_episode, episode.id)

    async def record(
        self, episode: OpenEpisode, call: CallRecord, *, parent_prefix_length: int
    ) -> None:
        """Keep a call; it is on disk when this returns. Raises EpisodeNotOpen, VolumeFull."""
        await self._journal.run(
            self._journal.calls.record,
            call,
            group_key=episode.group_key,
            parent_prefix_length=parent_prefix_length,
        )
        versions = [version for answer in call.completions for version in answer.versions_T]
        if call.status == "completed" and versions:
            known = [] if episode.version_first is None else [episode.version_first]
            episode.version_first = min([*known, *versions])
        if not episode.eval and (reason := self._repeated.add(call)) is not None:
            self._repeated.told()
            if not self._batches.has_groups:
                event = attempts_in_one_episode(episode.id, reason)
                episode.warning = f"{reason}. {event['hint']}"
                self._events.publish(EpisodeNoted(event))

    async def of_request(self, episode: OpenEpisode, request_id: str) -> CallRecord | None:
        """The completed call that this request id got before, if any."""
        return await self._journal.run(self._journal.calls.of_request, episode.id, request_id)

    async def check_room(self) -> None:
        """Raises VolumeFull when a call could be sampled but not kept."""
        await self._journal.run(self._journal.database.check_room)

    def _over(self, episode: OpenEpisode, task: asyncio.Task[None]) -> None:
        episode.calls.discard(task)
        if not episode.calls:
            episode.version_sampling = None
        self._open.worked()
        self._open.touch(episode)
