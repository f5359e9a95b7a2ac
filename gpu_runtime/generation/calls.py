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
from typing import Any

from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.errors import EngineBusy, EngineDead, RequestRefused, RuntimeFault
from gpu_runtime.generation.call_stream import CallStream, Prepared
from gpu_runtime.generation.labels import LABELS
from gpu_runtime.generation.recorder import Recorder
from gpu_runtime.generation.sampling import numbers_check, sampling_record, untrainable
from gpu_runtime.interfaces import SamplingOptions, TokenSource
from gpu_runtime.journal.records import CACHED, CallRecord, CallStatus
from gpu_runtime.journal.schema import EpisodeNotOpen
from gpu_runtime.refusals import (
    BadRequest,
    CallFailed,
    EpisodeClosed,
    GatewayError,
    prompt_too_long,
)
from gpu_runtime.rendering.history.conversation import Conversation
from gpu_runtime.rendering.history.splicing import Prompt
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.processes.tracing import span
from tinkerscript.wire.config import SessionConfig

log = logging.getLogger(__name__)


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
        self.recorder, self.renderer, self.config = recorder, renderer, config
        self._engine, self._on_fault = engine, on_fault
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
        refusal = self._untrainable(episode, prepared)
        if refusal is not None and self.config.unsupported_sampling == "refuse":
            raise refusal
        name = prepared.identity.request_id
        key = (episode.id, name) if name else None
        live = self._by_request.get(key) if key else None
        if live is None:
            live = CallStream(episode, prepared)
            live.task = asyncio.create_task(self._run(live))
            self.recorder.begun(episode, live.task)
            if key:
                self._by_request[key] = live
                live.task.add_done_callback(lambda _: self._by_request.pop(key, None))
        _same_body(live.prepared.identity.body_sha256, prepared)
        live.attach()
        return live

    async def compose(self, episode: OpenEpisode, prepared: Prepared) -> Prompt:
        """The prompt of ``prepared``, on the ids of the episode's earlier calls. Raises
        BadRequest.
        """
        return await asyncio.to_thread(prepared.compose, await self._conversation(episode))

    async def _run(self, live: CallStream) -> None:
        name = live.prepared.identity.request_id
        try:
            if name and (found := await self.recorder.of_request(live.episode, name)):
                _same_body(found.body_sha256, live.prepared)
                live.replay(found)
                return
            await self.recorder.check_room()
            await self._sample(live)
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

    async def _sample(self, live: CallStream) -> None:
        episode, prepared = live.episode, live.prepared
        conversation = await self._conversation(episode)
        with span("render"):
            prompt = await asyncio.to_thread(prepared.compose, conversation, self.context_length)
        self._check_length(prompt)
        live.read_prompt(prompt.ids)
        refusal = self._untrainable(episode, prepared)
        if refusal is not None and refusal.param is not None:  # on disk before a token is sampled
            await self.recorder.make_eval(episode, refusal.param)
        self.recorder.name_group(episode, prompt.ids)
        with span("wait"):
            await self.recorder.wait_to_sample(episode)
        begun_at = time.time()
        try:
            with span("sample", episode_id=episode.id, prompt_tokens=len(prompt.ids)) as traced:
                await self._generate_all(live, prompt)
                if traced is not None:
                    sampled = sum(len(delta.token_ids_T) for _, delta in live.deltas)
                    traced.set_attribute("sampled_tokens", sampled)
        except asyncio.CancelledError:
            record = self._record(live, prompt, begun_at, "cancelled")
            try:
                await self._keep(episode, record, prompt)
            except (GatewayError, EpisodeNotOpen) as error:
                log.warning("A cancelled call could not be noted: %s", error)
            raise
        record = self._record(live, prompt, begun_at)
        with span("record"):
            await _finish(self._keep(episode, record, prompt))
        conversation.add(record, self.renderer.tool_format)
        live.finish(record)

    async def _conversation(self, episode: OpenEpisode) -> Conversation:
        return await self.recorder.conversation(episode, self.renderer.tool_format)

    async def _keep(self, episode: OpenEpisode, record: CallRecord, prompt: Prompt) -> None:
        held = prompt.parent_prefix_length
        await self.recorder.record(episode, record, parent_prefix_length=held)

    async def _generate_all(self, live: CallStream, prompt: Prompt) -> None:
        prepared, episode = live.prepared, live.episode
        room = self.context_length - len(prompt.ids)
        identity = f"{episode.id}|{prepared.identity.request_id or live.id}"
        options = [
            replace(
                prepared.sampling(self.config, room=room, identity=identity, choice=choice),
                for_training=not episode.eval,
                episode_id=episode.id,
            )
            for choice in range(prepared.choices)
        ]
        tasks = [
            asyncio.create_task(self._generate(live, prompt.ids, choice, of_choice))
            for choice, of_choice in enumerate(options)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(
        self, live: CallStream, prompt_ids: Sequence[int], choice: int, options: SamplingOptions
    ) -> None:
        form = live.prepared.form
        cutters, budget = (form.cutters(), form.thinking_budget) if form else ([], None)
        generate = (
            self._engine.generate if budget is None else partial(budget.generate, self._engine)
        )
        stream = generate(f"{live.id}-{choice}", prompt_ids, options)
        finish_reason: str | None = None
        try:
            while not finish_reason:
                delta = await anext(stream)
                numbers_check(delta)
                pieces = [delta]
                for cutter in cutters:
                    pieces = [cut for piece in pieces for cut in cutter.cut(piece)]
                for piece in pieces:
                    live.push(choice, piece)
                    finish_reason = piece.finish_reason
        except StopAsyncIteration as error:
            raise EngineDead("the engine ended an answer without a reason") from error
        finally:
            await stream.aclose()

    def _untrainable(self, episode: OpenEpisode, prepared: Prepared) -> BadRequest | None:
        """Why the episode could not be trained with this call; None of one that is evaluated."""
        if episode.eval:
            return None
        return untrainable(sampling_record(prepared.request, self.config))

    def _sampling(self, prepared: Prepared) -> dict[str, Any]:
        options = prepared.sampling(self.config, room=1, identity="", choice=0)
        has_budget = prepared.form is not None and prepared.form.thinking_budget is not None
        is_narrowed = (
            options.json_schema or options.structural_tag or prepared.request.min_tokens
        ) or has_budget
        kept = sampling_record(prepared.request, self.config)
        return kept | ({"grammar": True} if is_narrowed else {})

    def _check_length(self, prompt: Prompt) -> None:
        if len(prompt.ids) >= self.context_length:
            param = "messages" if prompt.names else "prompt"
            raise prompt_too_long(self.context_length, len(prompt.ids), param)

    def _record(
        self, live: CallStream, prompt: Prompt, begun_at: float, status: CallStatus = "completed"
    ) -> CallRecord:
        prepared, answers = live.prepared, live.answers()
        completions = tuple(
            prepared.completion(live.id, i, deltas, prompt) for i, deltas in enumerate(answers)
        )
        options = prepared.options() | {"sampling": self._sampling(prepared)} | _of_prompt(live)
        if prepared.form is not None and (slips := prepared.form.slips(completions)):
            options |= {LABELS: options.get(LABELS, {}) | slips}
        # tokens of the prompt that its engine had computed before, for every answer
        if cached := min((deltas[0].cached_tokens for deltas in answers if deltas), default=0):
            options[CACHED] = cached
        return CallRecord(
            id=live.id,
            episode_id=live.episode.id,
            prompt_ids_P=prompt.ids,
            completions=completions,
            begun_at=begun_at,
            ended_at=time.time(),
            status=status,
            request_id=prepared.identity.request_id,
            body_sha256=prepared.identity.body_sha256,
            agent=prepared.identity.agent,
            parent=prompt.parent,
            messages_from=prompt.messages_from,
            messages=prepared.messages[prompt.messages_from :],
            options=options,
            drift=prompt.drift,
        )


def _same_body(known_sha256: str | None, prepared: Prepared) -> None:
    if known_sha256 != prepared.identity.body_sha256:
        raise BadRequest(
            "this X-Request-Id or Idempotency-Key was used with another body; it names one request",
            param="X-Request-Id",
        )


def _of_prompt(live: CallStream) -> dict[str, Any]:
    """Log-probabilities of the prompt's tokens, where a call asked for them: equal for all its
    answers.
    """
    found = next((d.prompt_logprobs_P for _, d in live.deltas if d.prompt_logprobs_P), None)
    if not found:
        return {}
    return {"prompt_logprobs_P": [{str(token): lp for token, lp in each.items()} for each in found]}


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` even if the caller is cancelled: what is being written to disk is completed,
    not undone.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()
