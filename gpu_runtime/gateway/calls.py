"""Answers calls: render, wait for the gate, sample, keep on disk, and only then let the last byte go."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gpu_runtime.errors import EngineDead, RequestRefused, RuntimeFault
from gpu_runtime.gateway.call_ids import new_call_id
from gpu_runtime.gateway.episodes import Episodes
from gpu_runtime.gateway.errors import BadRequest, CallFailed, EpisodeClosed, GatewayError, prompt_too_long
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.open_episode import OpenEpisode
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.splicing import Conversation, Prompt
from gpu_runtime.gateway.text_plan import TextPlan
from gpu_runtime.interfaces import Delta, Engine, SamplingOptions
from gpu_runtime.journal import EpisodeNotOpen
from gpu_runtime.journal_records import CallRecord, CallStatus
from tinkerscript.wire.config import SessionConfig

Plan = ChatPlan | TextPlan
STALL_S = 900.0  # an engine that says nothing for so long is dead; a hand-over of weights may take 600 s
log = logging.getLogger(__name__)


class Calls:
    """The calls in flight of one session. ``on_fault`` is told when the engine is lost."""

    def __init__(
        self,
        episodes: Episodes,
        engine: Engine,
        renderer: Renderer,
        config: SessionConfig,
        *,
        on_fault: Callable[[RuntimeFault], None],
        stall_s: float = STALL_S,
    ) -> None:
        self._episodes, self._engine, self._renderer, self._config = episodes, engine, renderer, config
        self._on_fault, self._stall_s = on_fault, stall_s
        self._by_request: dict[tuple[str, str], LiveCall] = {}

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        return min(self._engine.context_length, self._config.max_context_length)

    def open(self, episode: OpenEpisode, plan: Plan) -> LiveCall:
        """Begin to answer ``plan``, or join the call that answers the same request id. The caller is its first reader.

        Raises BadRequest when the id was used for another body.
        """
        key = (episode.id, plan.request_id) if plan.request_id else None
        live = self._by_request.get(key) if key else None
        if live is None:
            live = LiveCall(new_call_id(), episode.id, plan.body_sha256)
            live.task = asyncio.create_task(self._answer(episode, plan, live))
            self._episodes.call_begun(episode, live.task)
            if key:
                self._by_request[key] = live
                live.task.add_done_callback(lambda _: self._by_request.pop(key, None))
        _same_body(live.body_sha256, plan)
        live.attach()
        return live

    async def compose(self, episode: OpenEpisode, plan: Plan) -> Prompt:
        """The prompt of ``plan``, on the ids of the episode's earlier calls. Raises BadRequest."""
        return await asyncio.to_thread(plan.compose, await self._conversation(episode))

    async def _answer(self, episode: OpenEpisode, plan: Plan, live: LiveCall) -> None:
        try:
            if plan.request_id and (found := await self._episodes.recorded_call(episode, plan.request_id)):
                _same_body(found.body_sha256, plan)
                live.replay(found)
                return
            await self._episodes.check_room()
            await self._sample(episode, plan, live)
        except asyncio.CancelledError:
            live.fail(CallFailed("the call was cancelled", hint="The episode ended or the client went away."))
        except GatewayError as error:
            live.fail(error)
        except EpisodeNotOpen as error:
            live.fail(EpisodeClosed(str(error)))
        except RequestRefused as error:
            live.fail(BadRequest(f"the engine refuses these options: {error}", openai_code="unsupported_parameter"))
        except EngineDead as error:
            self._on_fault(error)
            live.fail(CallFailed(str(error)))
        except Exception:  # the top of a call: whatever it was, the client is told and the episode lives on
            log.exception("A call failed.")
            live.fail(GatewayError("the call failed inside the service", hint="Report this with the request id."))

    async def _sample(self, episode: OpenEpisode, plan: Plan, live: LiveCall) -> None:
        conversation = await self._conversation(episode)
        prompt = await asyncio.to_thread(plan.compose, conversation, self.context_length)
        self._check_length(prompt)
        self._episodes.group_found(episode, prompt.ids)
        await self._episodes.call_gate(episode)
        live.prompt_ids = prompt.ids
        begun_at = time.time()
        answers: list[list[Delta]] = [[] for _ in range(plan.choices)]
        try:
            await self._generate_all(plan, live, prompt, answers)
        except asyncio.CancelledError:
            record = self._record(episode, plan, live, prompt, answers, begun_at, status="cancelled")
            try:
                await self._episodes.call_record(episode, record, parent_prefix_length=prompt.parent_prefix_length)
            except (GatewayError, EpisodeNotOpen) as error:
                log.warning("A cancelled call could not be noted: %s", error)
            raise
        record = self._record(episode, plan, live, prompt, answers, begun_at)
        await _to_the_end(self._episodes.call_record(episode, record, parent_prefix_length=prompt.parent_prefix_length))
        conversation.add(record, self._renderer.tool_format)
        live.finish(record)

    async def _conversation(self, episode: OpenEpisode) -> Conversation:
        return await self._episodes.conversation(episode, self._renderer.tool_format)

    async def _generate_all(self, plan: Plan, live: LiveCall, prompt: Prompt, answers: list[list[Delta]]) -> None:
        room, identity = self.context_length - len(prompt.ids), plan.request_id or live.id
        options = [
            plan.sampling(self._config, room=room, identity=f"{live.episode_id}|{identity}", choice=choice)
            for choice in range(plan.choices)
        ]
        tasks = [
            asyncio.create_task(self._generate(live, prompt.ids, choice, options[choice], answers[choice]))
            for choice in range(len(answers))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(
        self, live: LiveCall, prompt_ids: Sequence[int], choice: int, options: SamplingOptions, deltas: list[Delta]
    ) -> None:
        stream = self._engine.generate(f"{live.id}-{choice}", prompt_ids, options)
        try:
            while not (deltas and deltas[-1].finish_reason):
                async with asyncio.timeout(self._stall_s):
                    delta = await anext(stream)
                deltas.append(delta)
                live.push(choice, delta)
        except TimeoutError as error:
            raise EngineDead(f"the engine said nothing for {self._stall_s:.0f} s") from error
        except StopAsyncIteration as error:
            raise EngineDead("the engine ended an answer without a reason") from error
        finally:
            await stream.aclose()

    def _check_length(self, prompt: Prompt) -> None:
        if len(prompt.ids) >= self.context_length:
            param = "messages" if prompt.names else "prompt"
            raise prompt_too_long(self.context_length, f"{len(prompt.ids)} tokens", param)

    def _record(
        self,
        episode: OpenEpisode,
        plan: Plan,
        live: LiveCall,
        prompt: Prompt,
        answers: list[list[Delta]],
        begun_at: float,
        status: CallStatus = "completed",
    ) -> CallRecord:
        return CallRecord(
            id=live.id,
            episode_id=episode.id,
            prompt_ids_P=prompt.ids,
            completions=tuple(plan.completion(live.id, i, deltas, prompt) for i, deltas in enumerate(answers)),
            begun_at=begun_at,
            ended_at=time.time(),
            status=status,
            request_id=plan.request_id,
            body_sha256=plan.body_sha256,
            agent=plan.agent,
            parent=prompt.parent,
            messages_from=prompt.messages_from,
            messages=plan.messages[prompt.messages_from :],
            options=plan.options(),
            drift=prompt.drift,
        )


def _same_body(known_sha256: str | None, plan: Plan) -> None:
    if known_sha256 != plan.body_sha256:
        raise BadRequest("this X-Request-Id was used with another body; an id names one request", param="X-Request-Id")


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` even if the caller is cancelled: what is being written to disk is answered, not undone."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()
