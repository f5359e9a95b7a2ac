"""vLLM behind interfaces.Engine and SamplerEngine: token ids in, token ids out, weights replaced in
place.

Strictly on-policy sessions replace them between calls. With ``max_staleness`` calls go on: vLLM
stops between two tokens and drops every cached key and value; then each call computes its prompt
and its own tokens once more under the new weights, and its next token is recorded as theirs. So a
long answer holds up no step.

For Tinker clients an engine has adapters on its model, side by side. For one of a larger rank than
it has room for, it is loaded again once the calls in flight have ended. Whole models of its shape
are sampled by turns (``served/weight_turns.py``): their weights take the place of the model's, and
cached prefixes are forgotten at each change.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpu_runtime.engine.arguments import EngineSpec, llm_prepare, llm_start
from gpu_runtime.engine.experts.recorder import experts_added
from gpu_runtime.engine.grammars.allowed_recorder import GrammarCompiler, allowed_recorder
from gpu_runtime.engine.grammars.budget import ENDED, TOO_SLOW
from gpu_runtime.engine.grammars.trial import GrammarTrial
from gpu_runtime.engine.raw_logprobs import is_raw
from gpu_runtime.engine.samples import sample_make
from gpu_runtime.engine.served.adapter_folders import AdapterFolders, room_rank
from gpu_runtime.engine.served.served_versions import ServedVersions, delta_split
from gpu_runtime.engine.served.weight_turns import WeightTurns
from gpu_runtime.engine.vllm_output import call_spans, delta_of, engine_parameters
from gpu_runtime.engine.vllm_process import device_turn, failed_call, how_ended
from gpu_runtime.errors import EngineDead, RequestRefused, WeightsRefused
from gpu_runtime.interfaces import Delta, SampleOrder, SampleOutcome, SamplingOptions
from gpu_runtime.weights.handover_folder import folder_is_whole

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

# Seconds. A hand-over waits for calls in flight, whose own length bounds it, or for one pass of the
# model where they are kept.
HANDOVER_S, SLEEP_S = 600.0, 120.0

REFUSED = "refused"  # how an answer of WeightReceiver.take_weights begins that did not take them


class VllmEngine:
    """One vLLM engine in a child process. Build it with ``start``."""

    def __init__(self, llm: "AsyncLLM", spec: EngineSpec) -> None:
        self.llm, self._spec = llm, spec
        self.context_length = spec.config.max_context_length
        self.shares_device = spec.shares_device
        # calls in flight go on with new weights; else they end first
        self._keeps_calls = spec.config.max_staleness > 0 and not spec.adapters
        self._versions, self.turns = ServedVersions(), WeightTurns(self._model_take)
        self._grammars = GrammarCompiler(llm.vllm_config)
        self._trial = GrammarTrial(llm.vllm_config)
        self._numbers, self._adapters = itertools.count(1), AdapterFolders()
        # the largest rank of an adapter that there is room for
        self._room = room_rank(spec.config.lora_rank) if spec.adapters else 0
        self._growth: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, spec: EngineSpec) -> "VllmEngine":
        """Load its model and wait until it can serve. Raises EngineDead, EngineUnsupported,
        ModelUnsupported.
        """
        engine = cls(await llm_start(spec), spec)
        try:
            await llm_prepare(engine.llm)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        folder: Path | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion under the weights of ``folder`` (SamplerEngine); closing it aborts
        it inside vLLM.

        Raises EngineDead, RequestRefused.
        """
        from vllm.v1.structured_output.request import get_structured_output_key

        with_raw = options.for_training and not is_raw(options)
        parameters = engine_parameters(options, with_raw=with_raw)
        if parameters.structured_outputs is not None:
            await self._trial.check(get_structured_output_key(parameters.structured_outputs))
        recorder = allowed_recorder(
            self._grammars, options, parameters, self.llm.renderer.get_eos_token_id()
        )
        outputs = self._outputs(request_id, prompt_ids, parameters, folder)
        async with self._turn_of(folder), aclosing(outputs):
            version, sampled = self.version, 0
            async for output in outputs:
                if (
                    parameters.structured_outputs is not None
                    and output.outputs[0].finish_reason == ENDED
                ):
                    raise RequestRefused(TOO_SLOW)
                delta = delta_of(output, version, options, with_raw=with_raw)
                starts = (
                    self._versions.starts(self.llm, request_id, output.outputs[0])
                    if self._keeps_calls
                    else ()
                )
                if options.for_training:
                    delta = experts_added(self.llm, request_id, output.outputs[0], delta, sampled)
                if recorder is not None:
                    delta = replace(
                        delta, allowed_T=await asyncio.to_thread(recorder.next, delta.token_ids_T)
                    )
                if output.finished and output.metrics is not None:
                    call_spans(output.metrics)
                for piece in delta_split(delta, starts, sampled):
                    yield piece
                sampled += len(delta.token_ids_T)

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        """The answers, and the scores of the prompt where they are asked for. Raises EngineDead,
        RequestRefused.
        """
        async with self._turn_of(order.folder):
            return await sample_make(order, self._last, self.version)

    async def _last(self, order: SampleOrder, parameters: "SamplingParams") -> "RequestOutput":
        name, last = f"sample-{next(self._numbers)}", None
        async with aclosing(
            self._outputs(name, order.prompt_ids, parameters, order.folder)
        ) as outputs:
            async for output in outputs:
                last = output
        if last is None:
            raise EngineDead("the engine ended an answer without a word")
        return last

    async def _outputs(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        parameters: "SamplingParams",
        folder: Path | None,
    ) -> AsyncGenerator["RequestOutput", None]:
        """Of one request, whose turn it is. Raises EngineDead, RequestRefused."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        adapter = None
        if folder is not None and not folder_is_whole(folder):
            adapter = self._adapters.request(folder)
        prompt: Any = {"prompt_token_ids": list(prompt_ids)}
        stream = self.llm.generate(prompt, parameters, request_id, lora_request=adapter)
        try:
            async for output in stream:
                yield output
        except (VLLMClientError, ValueError) as error:
            raise RequestRefused(str(error)) from error
        except (EngineDeadError, EngineGenerateError) as error:
            raise await failed_call(self.llm, error) from error
        finally:
            await stream.aclose()

    @asynccontextmanager
    async def _turn_of(self, folder: Path | None) -> AsyncIterator[None]:
        whole = folder if folder_is_whole(folder) else None
        if folder is not None and whole is None:
            await self._room_make(await asyncio.to_thread(self._adapters.rank, folder))
        async with self.turns.of(whole):
            yield

    async def _room_make(self, rank: int) -> None:
        """Have the engine loaded again where ``rank`` is beyond its room: vLLM allocates that when
        it starts. Raises EngineDead.
        """
        while (room := room_rank(rank)) > self._room:
            if self._growth is None:
                self._growth = asyncio.create_task(self._grow(room))
            await asyncio.shield(self._growth)  # whoever asked for it may go

    async def _grow(self, room: int) -> None:
        config = self._spec.config.model_copy(update={"lora_rank": room})
        try:
            await self.turns.hold(keeps=False)  # however long those calls take: they are watched
            await self._shut()
            self.llm = await llm_start(replace(self._spec, config=config))
            await llm_prepare(self.llm)
            self._room = room
            self.turns.restart()
        finally:
            self._growth = None

    @property
    def waiting(self) -> str:
        """How many samples wait for other weights than those that are served."""
        count = self.turns.waiting
        if self._growth is not None:
            return "the engine is loaded again, with room for adapters of a larger rank"
        return (
            f"{count} samples wait until the engine has changed to the weights that they are of"
            if count
            else ""
        )

    async def load_weights(self, folder: Path, version: int) -> None:
        """Let calls in flight finish, or stop between two tokens; take the weights, forget what is
        cached, go on.

        Raises DeviceMemoryShort, EngineDead, WeightsRefused. After any of them nothing is sampled
        any more: by which weights is not known.
        """
        await self._hold()
        await self._take(folder, version)
        self.turns.release()

    async def _model_take(self, model: Path | None) -> None:
        """Serve the weights of a Hugging Face folder in its turn, None for those that the engine
        started with.
        """
        try:
            await self._take(model or Path(self._spec.model_path), self.version)
        except WeightsRefused as refused:  # the next turn takes others
            raise RequestRefused(f"these weights could not be served: {refused}") from refused

    async def _take(self, folder: Path, version: int) -> None:
        async with self._device("taking the new weights", HANDOVER_S):
            # Not vLLM's own pause_generation: it sleeps, for outputs on their way. Ours have
            # arrived, or say themselves which weights they are of.
            await self.llm.engine_core.pause_scheduler_async(self._pause_mode, True)
            taken = await self.llm.collective_rpc("take_weights", args=(str(folder),))
            if refused := [answer for answer in taken if answer.startswith(REFUSED)]:
                raise WeightsRefused(refused[0])
            await self.llm.update_weight_version(self._versions.hand_over(version))
            await self.llm.resume_generation()

    async def sleep(self) -> None:
        """Let calls in flight finish, or stop between two tokens; keep the weights in host memory,
        free the device's.

        vLLM's level 1: a step that is refused needs the old weights back. Raises DeviceMemoryShort,
        EngineDead.
        """
        await self._hold()
        async with self._device("freeing its device", SLEEP_S):
            await self.llm.sleep(level=1, mode=self._pause_mode)

    async def wake(self) -> None:
        """Serve again. Raises DeviceMemoryShort, EngineDead."""
        async with self._device("taking its device back after a step", SLEEP_S):
            await self.llm.wake_up()
        self.turns.release()

    def _device(self, doing: str, limit_s: float) -> AbstractAsyncContextManager[None]:
        return device_turn(self.llm, doing, limit_s, self._spec.memory_share)

    async def _hold(self) -> None:
        """Let no call begin; wait until those that run have ended, unless they are kept. Raises
        EngineDead.

        Calls are counted here and not by vLLM's own pause: one that vLLM has queued but not begun
        would be sampled with the next weights under the number of the last.
        """
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self.turns.hold(keeps=self._keeps_calls)
        except TimeoutError as error:
            raise EngineDead(
                f"{self.turns.running} calls did not end within {HANDOVER_S:g} s"
            ) from error

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        return self.llm.model_config.get_vocab_size()

    @property
    def version(self) -> int:
        """The policy version being served."""
        return self._versions.current

    @version.setter
    def version(self, version: int) -> None:
        self._versions.current = version

    @property
    def _pause_mode(self) -> Literal["keep", "wait"]:
        return "keep" if self._keeps_calls else "wait"

    @property
    def dead(self) -> bool:
        """Whether vLLM has lost one of its processes."""
        return self.llm.errored and self._growth is None

    @property
    def ending(self) -> str:
        """How vLLM's process ended, in words."""
        return how_ended(self.llm)

    async def close(self) -> None:
        """Kill vLLM's processes, which hold nothing that outlives them: their own way out takes 5
        s.
        """
        if self._growth is not None:
            self._growth.cancel()
            await asyncio.gather(self._growth, return_exceptions=True)
        await asyncio.to_thread(self._trial.close)
        await self._shut()

    async def _shut(self) -> None:
        if self.llm.output_handler is not None:  # it would report their end as an error
            self.llm.output_handler.cancel()
        await asyncio.to_thread(self.llm.shutdown, timeout=0.0)
        # vLLM's ``__del__`` calls it once more when the interpreter ends and vLLM's own modules are
        # already empty.
        vars(self.llm)["shutdown"] = lambda timeout=None: None
