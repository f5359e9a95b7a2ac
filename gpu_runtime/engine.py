"""vLLM behind interfaces.Engine: token ids in, token ids out, weights replaced in place between calls."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpu_runtime.errors import EngineDead, RequestRefused
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.stacks import stacks_folder
from tinkerscript.wire.config import SessionConfig

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

# Seconds. Start covers loading a large model; a hand-over waits for calls in flight, whose own length bounds it.
START_S, HANDOVER_S, SLEEP_S = 900.0, 600.0, 120.0

# Of the memory of a GPU that is shared with the trainer, whose weights and (unless offloaded) moments stay there too.
SHARED_MEMORY = 0.5

# On a CPU vLLM puts its one worker into a process of its own, and its core spins while that worker computes: on two
# cores a call then takes 4.6 times as long (8 tokens: 3.6 s against 0.8 s on the same busy machine). Named by its
# path, the executor that runs the worker inside the core's process is taken as it is.
IN_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


class VllmEngine:
    """One vLLM engine in a child process. Build it with ``start``."""

    def __init__(self, llm: "AsyncLLM", context_length: int, *, shares_device: bool = False) -> None:
        self._llm = llm
        self.context_length = context_length
        self.shares_device = shares_device
        self.version = 0
        self._calls = 0
        self._open, self._drained = asyncio.Event(), asyncio.Event()
        self._open.set()
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
    ) -> "VllmEngine":
        """Load ``model_path`` and wait until it can serve. Raises EngineDead.

        ``gpus`` are what its processes may see, the engine's own first; none: whatever this process sees.
        """
        _environment(device)
        # Here and not above: vLLM reads its environment when it is imported.
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(
            model=model_path,
            dtype=_dtype(config, device),
            max_model_len=config.max_context_length,
            seed=config.seed,
            # On a CPU, and at the sizes that a CPU can train, compiling costs a minute and gains nothing.
            enforce_eager=device == "cpu",
            distributed_executor_backend=IN_PROCESS if device == "cpu" else None,
            max_num_seqs=256,
            worker_extension_cls="gpu_runtime.weights.sync.WeightReceiver",
            generation_config="vllm",  # sampling defaults come from the request, not from the model's folder
            logprobs_mode="raw_logprobs",  # of the weights alone, as the trainer computes them: see interfaces.Delta
            max_logprobs=20,
            disable_log_stats=True,
            enable_sleep_mode=shares_device,
            gpu_memory_utilization=SHARED_MEMORY if shares_device else AsyncEngineArgs.gpu_memory_utilization,
        )
        try:
            with _started_with(_variables(device, gpus)):
                llm = await asyncio.wait_for(asyncio.to_thread(AsyncLLM.from_engine_args, arguments), START_S)
        except (RuntimeError, TimeoutError) as error:
            raise EngineDead(f"the engine did not start: {error}") from error
        engine = cls(llm, config.max_context_length, shares_device=shares_device)
        if (stacks := stacks_folder()) is not None:
            await llm.collective_rpc("stacks_on_signal", args=(str(stacks),))
        return engine

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion; closing the iterator aborts it inside vLLM. Raises EngineDead, RequestRefused."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        await self._open.wait()
        version = self.version
        self._calls += 1
        self._drained.clear()
        stream = self._llm.generate({"prompt_token_ids": list(prompt_ids)}, _parameters(options), request_id)
        try:
            async for output in stream:
                yield _delta(output.outputs[0], version, options.top_logprobs)
        except VLLMClientError as error:
            raise RequestRefused(str(error)) from error
        except (EngineDeadError, EngineGenerateError) as error:
            raise EngineDead(f"the engine failed while generating: {error}") from error
        finally:
            await stream.aclose()
            self._calls -= 1
            if self._calls == 0:
                self._drained.set()

    async def load_weights(self, folder: Path, version: int) -> None:
        """Let calls in flight finish, take the weights, forget the cached prefixes, go on. Raises EngineDead."""
        await self._close_doors()
        try:
            async with asyncio.timeout(HANDOVER_S):
                # vLLM's own pause_generation sleeps first, for outputs on their way: ours have all arrived.
                await self._llm.engine_core.pause_scheduler_async("wait", True)
                await self._llm.collective_rpc("take_weights", args=(str(folder),))
                self.version = version
                await self._llm.resume_generation()
        except TimeoutError as error:
            raise EngineDead("the engine did not take the new weights before its deadline") from error
        self._open.set()

    async def sleep(self) -> None:
        """Let calls in flight finish, then keep the weights in host memory and free those of the device.

        vLLM's level 1: a step that is refused needs the old weights back. Raises EngineDead.
        """
        await self._close_doors()
        try:
            async with asyncio.timeout(SLEEP_S):
                await self._llm.sleep(level=1, mode="wait")
        except TimeoutError as error:
            raise EngineDead("the engine did not free its device before its deadline") from error

    async def wake(self) -> None:
        """Serve again. Raises EngineDead."""
        try:
            async with asyncio.timeout(SLEEP_S):
                await self._llm.wake_up()
        except TimeoutError as error:
            raise EngineDead("the engine did not wake before its deadline") from error
        self._open.set()

    async def _close_doors(self) -> None:
        """New calls wait, those inside end. Counted here and not by vLLM's own pause: a call that vLLM has queued but
        not begun would be sampled with the next weights under the number of the last."""
        self._open.clear()
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self._drained.wait()
        except TimeoutError as error:
            raise EngineDead(f"{self._calls} calls did not end within {HANDOVER_S:g} s") from error

    @property
    def dead(self) -> bool:
        """Whether vLLM has lost one of its processes."""
        return self._llm.errored

    async def close(self) -> None:
        """End vLLM's processes; it gives them a grace and then kills them."""
        await asyncio.to_thread(self._llm.shutdown)


@contextmanager
def _started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables of vLLM's processes, which are started meanwhile, and of nobody else."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _variables(device: str, gpus: Sequence[str]) -> dict[str, str]:
    if device == "cpu":
        # Freed memory is kept, as the trainer's ranks keep theirs (training/heap.py): where a hand-over has to pack
        # weights anew, page faults were a quarter of its time (SmolLM2-135M in float32, 538 MB: 0.29 s, then 0.22 s).
        return {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}


def _environment(device: str) -> None:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("PYTHONHASHSEED", "0")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # its processes are all on this machine
    if device == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
        os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
        # Threads that wait by spinning starve each other as soon as anything else runs: with one other busy process on
        # two cores 8 tokens take 5.7 s, and 0.84 s with threads that sleep (alone: 0.62 s and 0.75 s).
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # The trainer uses the same cores between the engine's turns: nothing may be bound to one.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def _dtype(config: SessionConfig, device: str) -> Literal["float32", "bfloat16"]:
    return ("bfloat16" if device == "cuda" else "float32") if config.dtype == "auto" else config.dtype


def _parameters(options: SamplingOptions) -> "SamplingParams":
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    structured = None
    if options.structural_tag is not None:
        structured = StructuredOutputsParams(structural_tag=options.structural_tag)
    elif options.json_schema is not None:
        json_object = options.json_schema == "{}"
        structured = StructuredOutputsParams(
            json_object=json_object or None, json=None if json_object else options.json_schema
        )
    return SamplingParams(
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        stop=list(options.stop) or None,
        seed=options.seed,
        logprobs=options.top_logprobs,  # 0 asks for the sampled token's alone
        structured_outputs=structured,
        output_kind=RequestOutputKind.DELTA,
        skip_special_tokens=True,
    )


def _delta(completion: "CompletionOutput", version: int, top: int) -> Delta:
    ids = tuple(completion.token_ids)
    by_token = [{token: of.logprob for token, of in entry.items()} for entry in completion.logprobs or []]
    return Delta(
        text=completion.text,
        token_ids_T=ids,
        logprobs_T=tuple(entry[token] for token, entry in zip(ids, by_token, strict=True)),
        version=version,
        finish_reason=completion.finish_reason,
        top_logprobs_T=tuple(by_token) if top else (),
        stop_reason=completion.stop_reason if isinstance(completion.stop_reason, str) else None,
    )
