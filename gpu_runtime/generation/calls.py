"""Runs calls: render, wait until sampling is allowed, sample, keep on disk, and only then send the
last byte.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from gpu_runtime.episodes.open_episode import OpenEpisode
from gpu_runtime.errors import EngineBusy, EngineDead, RequestRefused, RuntimeFault
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.labels import LABELS
from gpu_runtime.generation.sampling import numbers_check, sampling_record, untrainable
from gpu_runtime.generation.text_prompt import PreparedText
from gpu_runtime.interfaces import Delta, SamplingOptions, TokenSource
from gpu_runtime.journal.call_ids import new_call_id
from gpu_runtime.journal.records import CACHED, CallRecord, CallStatus
from gpu_runtime.journal.schema import EpisodeNotOpen
from gpu_runtime.refusals import (
    BadRequest,
    CallFailed,
    EpisodeClosed,
    GatewayError,
    prompt_too_long,
)
from gpu_runtime.rendering.conversation import Conversation
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.splicing import Prompt
from gpu_runtime.rendering.tool_formats import ToolFormat
from tinkerscript.processes.tracing import span
from tinkerscript.wire.config import SessionConfig

Prepared = PreparedChat | PreparedText
log = logging.getLogger(__name__)


class Recorder(Protocol):
    """What becomes of calls: episodes.call_recorder keeps them, generation.forgotten_calls forgets
    them.
    """

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


class Calls:
    """The calls in flight of one session. ``on_fault`` is called with the fault when the engine is
    lost.

    No call has a clock: kept in flight, it is silent for as long as a step lasts. Engines have
    (engine/replicas.py).
    """

    def __init__(
        self,
        recorder: Recorder,
        engine: TokenSource,
        renderer: Renderer,
        config: SessionConfig,
        *,
        on_fault: Callable[[RuntimeFault], None],
    ) -> None:
        self._recorder, self._engine, self._renderer = recorder, engine, renderer
        self.config = config
        self._on_fault = on_fault
        self._by_request: dict[tuple[str, str], CallStream] = {}

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        return min(self._engine.context_length, self.config.max_context_length)

    def open(self, episode: OpenEpisode, prepared: Prepared) -> CallStream:
        """Start the call ``prepared``, or join the running call of the same request id. The caller
        is a reader of it.

        Raises BadRequest when the id was used for another body, and for sampling that cannot be
        trained unless the session's ``unsupported_sampling`` makes an evaluation of the episode.
        """
        refusal = (
            None if episode.eval else untrainable(sampling_record(prepared.request, self.config))
        )
        if refusal is not None and self.config.unsupported_sampling == "refuse":
            raise refusal
        key = (episode.id, prepared.request_id) if prepared.request_id else None
        live = self._by_request.get(key) if key else None
        if live is None:
            live = CallStream(new_call_id(), episode.id, prepared.body_sha256)
            live.task = asyncio.create_task(
                self._run(episode, prepared, live, refusal.param if refusal else None)
            )
            self._recorder.begun(episode, live.task)
            if key:
                self._by_request[key] = live
                live.task.add_done_callback(lambda _: self._by_request.pop(key, None))
        _same_body(live.body_sha256, prepared)
        live.attach()
        return live

    async def compose(self, episode: OpenEpisode, prepared: Prepared) -> Prompt:
        """The prompt of ``prepared``, on the ids of the episode's earlier calls. Raises
        BadRequest.
        """
        return await asyncio.to_thread(prepared.compose, await self._conversation(episode))

    async def _run(
        self, episode: OpenEpisode, prepared: Prepared, live: CallStream, untrainable_by: str | None
    ) -> None:
        try:
            if prepared.request_id and (
                found := await self._recorder.of_request(episode, prepared.request_id)
            ):
                _same_body(found.body_sha256, prepared)
                live.replay(found)
                return
            await self._recorder.check_room()
            await self._sample(episode, prepared, live, untrainable_by)
        except asyncio.CancelledError:
            live.fail(
                CallFailed(
                    "the call was cancelled", hint="The episode ended or the client went away."
                )
            )
        except GatewayError as error:
            live.fail(error)
        except EpisodeNotOpen as error:
            live.fail(EpisodeClosed(str(error)))
        except EngineBusy as error:
            live.fail(CallFailed(str(error)))
        except RequestRefused as error:
            live.fail(
                BadRequest(
                    f"the engine refuses these options: {error}",
                    openai_code="unsupported_parameter",
                )
            )
        except EngineDead as error:
            self._on_fault(error)
            live.fail(CallFailed(str(error)))
        except Exception:  # the top of a call: the client gets an error and the episode goes on
            log.exception("A call failed.")
            live.fail(
                GatewayError(
                    "the call failed inside the service", hint="Report this with the request id."
                )
            )

    async def _sample(
        self, episode: OpenEpisode, prepared: Prepared, live: CallStream, untrainable_by: str | None
    ) -> None:
        conversation = await self._conversation(episode)
        with span("render"):
            prompt = await asyncio.to_thread(prepared.compose, conversation, self.context_length)
        self._check_length(prompt)
        live.read_prompt(prompt.ids)
        if untrainable_by is not None:  # on disk before a token is sampled
            await self._recorder.make_eval(episode, untrainable_by)
        self._recorder.name_group(episode, prompt.ids)
        with span("wait"):
            await self._recorder.wait_to_sample(episode)
        begun_at = time.time()
        answers: list[list[Delta]] = [[] for _ in range(prepared.choices)]
        try:
            with span("sample", episode_id=episode.id, prompt_tokens=len(prompt.ids)) as traced:
                await self._generate_all(
                    prepared, live, prompt, answers, is_trained=not episode.eval
                )
                if traced is not None:
                    traced.set_attribute(
                        "sampled_tokens",
                        sum(len(d.token_ids_T) for deltas in answers for d in deltas),
                    )
        except asyncio.CancelledError:
            record = self._record(
                episode, prepared, live, prompt, answers, begun_at, status="cancelled"
            )
            try:
                await self._recorder.record(
                    episode, record, parent_prefix_length=prompt.parent_prefix_length
                )
            except (GatewayError, EpisodeNotOpen) as error:
                log.warning("A cancelled call could not be noted: %s", error)
            raise
        record = self._record(episode, prepared, live, prompt, answers, begun_at)
        with span("record"):
            await _finish(
                self._recorder.record(
                    episode, record, parent_prefix_length=prompt.parent_prefix_length
                )
            )
        conversation.add(record, self._renderer.tool_format)
        live.finish(record)

    async def _conversation(self, episode: OpenEpisode) -> Conversation:
        return await self._recorder.conversation(episode, self._renderer.tool_format)

    async def _generate_all(
        self,
        prepared: Prepared,
        live: CallStream,
        prompt: Prompt,
        answers: list[list[Delta]],
        *,
        is_trained: bool,
    ) -> None:
        room, identity = self.context_length - len(prompt.ids), prepared.request_id or live.id
        options = [
            replace(
                prepared.sampling(
                    self.config, room=room, identity=f"{live.episode_id}|{identity}", choice=choice
                ),
                for_training=is_trained,
                episode_id=live.episode_id,
            )
            for choice in range(prepared.choices)
        ]
        tasks = [
            asyncio.create_task(
                self._generate(live, prompt.ids, choice, options[choice], answers[choice], prepared)
            )
            for choice in range(len(answers))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(
        self,
        live: CallStream,
        prompt_ids: Sequence[int],
        choice: int,
        options: SamplingOptions,
        deltas: list[Delta],
        prepared: Prepared,
    ) -> None:
        cutters, budget = prepared.cutters(), prepared.thinking_budget
        generate = (
            self._engine.generate if budget is None else partial(budget.generate, self._engine)
        )
        stream = generate(f"{live.id}-{choice}", prompt_ids, options)
        try:
            while not (deltas and deltas[-1].finish_reason):
                delta = await anext(stream)
                numbers_check(delta)
                pieces = [delta]
                for cutter in cutters:
                    pieces = [cut for piece in pieces for cut in cutter.cut(piece)]
                for piece in pieces:
                    deltas.append(piece)
                    live.push(choice, piece)
        except StopAsyncIteration as error:
            raise EngineDead("the engine ended an answer without a reason") from error
        finally:
            await stream.aclose()

    def _sampling(self, prepared: Prepared) -> dict[str, Any]:
        options = prepared.sampling(self.config, room=1, identity="", choice=0)
        is_narrowed = bool(
            options.json_schema or options.structural_tag or prepared.request.min_tokens
        )
        is_narrowed = is_narrowed or prepared.thinking_budget is not None
        return sampling_record(prepared.request, self.config) | (
            {"grammar": True} if is_narrowed else {}
        )

    def _check_length(self, prompt: Prompt) -> None:
        if len(prompt.ids) >= self.context_length:
            param = "messages" if prompt.names else "prompt"
            raise prompt_too_long(self.context_length, len(prompt.ids), param)

    def _record(
        self,
        episode: OpenEpisode,
        prepared: Prepared,
        live: CallStream,
        prompt: Prompt,
        answers: list[list[Delta]],
        begun_at: float,
        status: CallStatus = "completed",
    ) -> CallRecord:
        completions = tuple(
            prepared.completion(live.id, i, deltas, prompt) for i, deltas in enumerate(answers)
        )
        options = prepared.options() | {"sampling": self._sampling(prepared)} | _of_prompt(answers)
        if slips := prepared.slips(completions):
            options |= {LABELS: options.get(LABELS, {}) | slips}
        if cached := cached_tokens(answers):
            options[CACHED] = cached
        return CallRecord(
            id=live.id,
            episode_id=episode.id,
            prompt_ids_P=prompt.ids,
            completions=completions,
            begun_at=begun_at,
            ended_at=time.time(),
            status=status,
            request_id=prepared.request_id,
            body_sha256=prepared.body_sha256,
            agent=prepared.agent,
            parent=prompt.parent,
            messages_from=prompt.messages_from,
            messages=prepared.messages[prompt.messages_from :],
            options=options,
            drift=prompt.drift,
        )


def _same_body(known_sha256: str | None, prepared: Prepared) -> None:
    if known_sha256 != prepared.body_sha256:
        raise BadRequest(
            "this X-Request-Id or Idempotency-Key was used with another body; it names one request",
            param="X-Request-Id",
        )


def cached_tokens(answers: Sequence[Sequence[Delta]]) -> int:
    """How many tokens of a prompt its engine had computed before, for every one of ``answers``."""
    return min((deltas[0].cached_tokens for deltas in answers if deltas), default=0)


def _of_prompt(answers: Sequence[Sequence[Delta]]) -> dict[str, Any]:
    """Log-probabilities of the prompt's tokens, where a call asked for them: equal for all its
    answers.
    """
    found = next(
        (
            delta.prompt_logprobs_P
            for deltas in answers
            for delta in deltas
            if delta.prompt_logprobs_P
        ),
        None,
    )
    return (
        {"prompt_logprobs_P": [{str(token): lp for token, lp in entry.items()} for entry in found]}
        if found
        else {}
    )


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` even if the caller is cancelled: what is being written to disk is completed,
    not undone.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()
