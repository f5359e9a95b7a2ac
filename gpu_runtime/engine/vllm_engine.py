"""vLLM behind interfaces.Engine: token ids in, token ids out, weights replaced in place.

Strictly on-policy sessions replace them between calls. With ``max_staleness`` calls go on: vLLM stops between two
tokens and drops every cached key and value; then each call computes its prompt and its own tokens once more under the
new weights, and its next token is recorded as theirs. So a long answer holds up no step.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpu_runtime.engine.allowed_recorder import GrammarCompiler, allowed_recorder
from gpu_runtime.engine.grammars.budget import ENDED, TOO_SLOW
from gpu_runtime.engine.grammars.trial import GrammarTrial
from gpu_runtime.engine.model_runner import runner_verify
from gpu_runtime.engine.over_nodes.arguments import engine_config, llm_start
from gpu_runtime.engine.over_nodes.others import OtherNodes
from gpu_runtime.engine.raw_logprobs import is_raw
from gpu_runtime.engine.served_versions import ServedVersions, delta_split
from gpu_runtime.engine.vllm_output import call_spans, delta_of, engine_parameters
from gpu_runtime.engine.vllm_process import (
    child_variables,
    device_turn,
    failed_call,
    how_ended,
    started_with,
    vllm_import,
)
from gpu_runtime.errors import EngineDead, ModelUnsupported, RequestRefused, RuntimeFault, WeightsRefused
from gpu_runtime.health.notice import kept_from_children
from gpu_runtime.health.stack_dumps import stacks_folder
from gpu_runtime.interfaces import Delta, SamplingOptions
from tinkerscript.wire.config import SessionConfig

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.async_llm import AsyncLLM

# Seconds. Start covers loading a large model. A hand-over waits for calls in flight, whose own length bounds it, or for
# one pass of the model where they are kept.
START_S, HANDOVER_S, SLEEP_S = 900.0, 600.0, 120.0

REFUSED = "refused"  # how an answer of WeightReceiver.take_weights begins that did not take them


class VllmEngine:
    """One vLLM engine in a child process. Build it with ``start``.

    ``keeps_calls``: calls in flight go on with new weights; without it they end first.
    """

    def __init__(
        self, llm: "AsyncLLM", context_length: int, *, shares_device: bool = False, keeps_calls: bool = False,
        others: OtherNodes | None = None, memory_share: float | None = None,
    ) -> None:  # fmt: skip
        self.llm = llm
        self._memory_share = memory_share
        self.context_length = context_length
        self.shares_device = shares_device
        self._keeps_calls, self._others = keeps_calls, others
        self._versions = ServedVersions()
        self.calls_in_flight = 0
        self._grammars, self._trial = GrammarCompiler(llm.vllm_config), GrammarTrial(llm.vllm_config)
        self.open_for_calls, self._drained = asyncio.Event(), asyncio.Event()
        self.open_for_calls.set()
        self._drained.set()

    @classmethod
    async def start(
        cls,
        model_path: str,
        config: SessionConfig,
        device: str,
        *,
        shares_device: bool = False,
        gpus: Sequence[str] = (),
        tensor_parallel: int = 1,
        memory_share: float | None = None,
        others: OtherNodes | None = None,
        awaits_weights: bool = False,
    ) -> "VllmEngine":
        """Load ``model_path`` and wait until it can serve. Raises EngineDead, EngineUnsupported, ModelUnsupported; over
        several nodes NodesDiffer, PlacementImpossible.

        ``gpus`` are what its processes may see, the engine's own first; none: whatever this process
        sees. ``tensor_parallel`` processes share each layer, every one on a device of its own: the
        first of ``gpus``, of whose memory they take ``memory_share``.
        ``others`` are its parts on other nodes, whom it ends with itself; the caller, where it does not start.
        ``awaits_weights``: nothing is sampled before ``load_weights``.
        """
        await asyncio.to_thread(vllm_import, device)
        try:
            vllm_config = engine_config(
                model_path, config, device, shares_device=shares_device, tensor_parallel=tensor_parallel,
                memory_share=memory_share, part=others.own if others else None, awaits_weights=awaits_weights,
            )  # fmt: skip
            if others is not None:
                await asyncio.to_thread(others.start)
            with started_with(child_variables(device, gpus)):
                start = kept_from_children()(llm_start)
                async with asyncio.timeout(START_S):
                    llm = await asyncio.to_thread(start, vllm_config)
        except ValueError as refusal:  # of its configuration, before any process is started
            raise ModelUnsupported(f"vLLM does not take this model: {str(refusal)[:500]}") from refusal
        except (RuntimeError, TimeoutError) as error:
            dead = EngineDead(f"the engine did not start: {error}")
            raise (await others.cause(dead) if others is not None else dead) from error
        engine = cls(
            llm, config.max_context_length, shares_device=shares_device, keeps_calls=config.max_staleness > 0,
            others=others, memory_share=memory_share,
        )  # fmt: skip
        try:
            await engine._prepare(device)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _prepare(self, device: str) -> None:
        """Put what is ours into the workers. Raises EngineUnsupported."""
        await runner_verify(self.llm)
        on_cpu = ("seeds_set_right", "sampling_set", "layers_flatten") if device == "cpu" else ()
        for name in ("grammars_bound", "raw_logprobs_set", *on_cpu):
            await self.llm.collective_rpc(name)
        if (stacks := stacks_folder()) is not None:
            await self.llm.collective_rpc("stacks_register", args=(str(stacks),))

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        lora: "LoRARequest | None" = None,
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion, of an adapter where ``lora`` names one; closing the iterator aborts it inside vLLM.

        Raises EngineDead, RequestRefused.
        """
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError
        from vllm.v1.structured_output.request import get_structured_output_key

        with_raw = options.for_training and not is_raw(options)
        prompt, parameters = {"prompt_token_ids": list(prompt_ids)}, engine_parameters(options, with_raw=with_raw)
        if parameters.structured_outputs is not None:
            await self._trial.check(get_structured_output_key(parameters.structured_outputs))
        await self.open_for_calls.wait()
        version, sampled = self.version, 0
        self.calls_in_flight += 1
        self._drained.clear()
        end = self.llm.renderer.get_eos_token_id()
        recorder = allowed_recorder(self._grammars, options, parameters, end)
        stream = self.llm.generate(prompt, parameters, request_id, lora_request=lora)
        try:
            async for output in stream:
                if parameters.structured_outputs is not None and output.outputs[0].finish_reason == ENDED:
                    raise RequestRefused(TOO_SLOW)
                delta = delta_of(output, version, options, with_raw=with_raw)
                starts = self._versions.starts(self.llm, request_id, output.outputs[0]) if self._keeps_calls else ()
                if recorder is not None:
                    delta = replace(delta, allowed_T=await asyncio.to_thread(recorder.next, delta.token_ids_T))
                if output.finished and output.metrics is not None:
                    call_spans(output.metrics)
                for piece in delta_split(delta, starts, sampled):
                    yield piece
                sampled += len(delta.token_ids_T)
        except VLLMClientError as error:
            raise RequestRefused(str(error)) from error
        except (EngineDeadError, EngineGenerateError) as error:
            raise await self._named(await failed_call(self.llm, error)) from error
        finally:
            await stream.aclose()
            self.calls_in_flight -= 1
            if self.calls_in_flight == 0:
                self._drained.set()

    async def load_weights(self, folder: Path, version: int) -> None:
        """Let calls in flight finish, or stop between two tokens; take the weights, forget what is cached, go on.

        Raises DeviceMemoryShort, EngineDead, WeightsRefused. After any of them nothing is sampled
        any more: by which weights is not known.
        """
        await self._pause_admission()
        async with self._turn("taking the new weights", HANDOVER_S):
            # Not vLLM's own pause_generation: it sleeps, for outputs on their way. Ours have
            # arrived, or say themselves which weights they are of.
            await self.llm.engine_core.pause_scheduler_async(self._pause_mode, True)
            taken = await self.llm.collective_rpc("take_weights", args=(str(folder),))
            if refused := [answer for answer in taken if answer.startswith(REFUSED)]:
                raise WeightsRefused(refused[0])
            await self.llm.update_weight_version(self._versions.hand_over(version))
            await self.llm.resume_generation()
        self.open_for_calls.set()

    async def sleep(self) -> None:
        """Let calls in flight finish, or stop between two tokens; keep the weights in host memory, free the device's.

        vLLM's level 1: a step that is refused needs the old weights back. Raises DeviceMemoryShort,
        EngineDead.
        """
        await self._pause_admission()
        async with self._turn("freeing its device", SLEEP_S):
            await self.llm.sleep(level=1, mode=self._pause_mode)

    async def wake(self) -> None:
        """Serve again. Raises DeviceMemoryShort, EngineDead."""
        async with self._turn("taking its device back after a step", SLEEP_S):
            await self.llm.wake_up()
        self.open_for_calls.set()

    def _turn(self, doing: str, limit_s: float) -> AbstractAsyncContextManager[None]:
        return device_turn(self.llm, doing, limit_s, self._memory_share)

    async def _pause_admission(self) -> None:
        """Hold new calls back until ``open_for_calls`` is set; wait until those that run have ended, unless they are
        kept. Raises EngineDead.

        Calls are counted here and not by vLLM's own pause: one that vLLM has queued but not begun would be sampled
        with the next weights under the number of the last.
        """
        self.open_for_calls.clear()
        if self._keeps_calls:
            return
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self._drained.wait()
        except TimeoutError as error:
            raise EngineDead(f"{self.calls_in_flight} calls did not end within {HANDOVER_S:g} s") from error

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
        """Whether vLLM has lost one of its processes. Raises EngineDead, which names it, where a node is lost."""
        if self._others is not None and self._others.lost is not None:
            raise self._others.lost
        return self.llm.errored

    @property
    def ending(self) -> str:
        """How vLLM's process ended, in words."""
        return how_ended(self.llm)

    async def _named(self, failure: EngineDead) -> RuntimeFault:
        return failure if self._others is None else await self._others.cause(failure)

    async def close(self) -> None:
        """Kill vLLM's processes, which hold nothing that outlives them: their own way out takes 5 s."""
        if self.llm.output_handler is not None:  # else it reports the end of its processes as an error
            self.llm.output_handler.cancel()
        await asyncio.to_thread(self._trial.close)
        await asyncio.to_thread(self.llm.shutdown, timeout=0.0)
        if self._others is not None:
            await asyncio.to_thread(self._others.close)
        # vLLM's ``__del__`` calls it once more when the interpreter ends and vLLM's own modules are already empty.
        vars(self.llm)["shutdown"] = lambda timeout=None: None
