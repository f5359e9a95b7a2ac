"""How vLLM's processes are started here (environment, executor), and how they ended or failed."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from gpu_runtime.engine.model_runner import FIRST, SWITCH, switch_verify
from gpu_runtime.engine.sockets import sockets_folder
from gpu_runtime.errors import DeviceMemoryShort, EngineDead, WeightsRefused
from gpu_runtime.failures.core_errors import core_errors_forget
from gpu_runtime.placement import engine_needs_gpu
from gpu_runtime.processes.absent_vision import inspections_stand_in
from gpu_runtime.processes.exit_report import exit_text
from gpu_runtime.processes.paused_gc import gc_paused
from gpu_runtime.processes.starting import fork_server_begin, forks, multiprocessing_protect
from tinkerscript.processes import machine_share
from tinkerscript.processes.nvml import nvml_open

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

# Of one worker. On a CPU vLLM puts it into a process of its own, and its core spins while that
# worker computes: on two cores a call then takes 4.6 times as long (8 tokens: 3.6 s against 0.8 s
# on the same busy machine). Named by its path, the executor that runs the worker inside the core's
# process, as vLLM's own does on a GPU, is taken as it is.
IN_PROCESS = "gpu_runtime.engine.executors.PrivateUniProcExecutor"

# Where a worker is in a process of its own, the core's is bounded by the executor itself.
BOUNDED = "gpu_runtime.engine.executors.BoundedMultiprocExecutor"

GIB = 1 << 30
SHORT = "out of memory"  # CUDA's words for it, which torch and vLLM's allocator repeat
ENDS_S = 5.0  # a core that has failed says so, and ends then
PRELOADED = "gpu_runtime.engine.cpu.preloaded"  # by name: to import it takes seconds


def executor(tensor_parallel: int) -> str:
    """What vLLM is told of how its workers run: each in a process of its own where there are
    several.

    On one machine alone: vLLM would take Ray where it finds a cluster of it.
    """
    return BOUNDED if tensor_parallel > 1 else IN_PROCESS


@contextmanager
def started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for the processes that are started inside the block, and restores
    ours after it.
    """
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


def child_variables(device: str, gpus: Sequence[str]) -> dict[str, str]:
    """The environment of the processes alone: which GPUs they see, how exactly they multiply, how
    they keep memory.
    """
    if device == "cpu":
        # Freed memory is kept, as in the trainer's ranks (training/cpu/process.py): where a
        # hand-over has to pack weights anew, page faults were a quarter of its time (SmolLM2-135M
        # in float32, 538 MB: 0.29 s, then 0.22 s).
        kept = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
        # The engine is eager there, but for one small function of vLLM's sampler (the rank of a
        # token), which the first call of every start would compile: 6 s with a warm cache and 15 s
        # with none, for 1.2 ms of a step of 16 sequences over 49,152 tokens.
        return kept | {"TORCH_COMPILE_DISABLE": "1"}
    # float32 attention of vLLM's is a kernel of Triton's, which by itself rounds what it multiplies
    # to the 10 bits of TF32. The trainer's does not (FlexAttention), nor do torch's products in
    # either.
    exact = {"TRITON_F32_DEFAULT": "ieee"}
    return exact | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})


def vllm_import(device: str) -> None:
    """Import what starts an engine, after its environment was set. Takes seconds: call it in a
    thread.

    Raises EngineUnsupported.
    """
    environment_set(device)
    core_errors_forget()
    switch_verify()
    multiprocessing_protect()
    with gc_paused():
        import vllm.engine.arg_utils
        import vllm.envs
        import vllm.v1.engine.async_llm

    inspections_stand_in()
    if forks(device):  # of Python's three ways to start a process vLLM's variable takes two
        vllm.envs.environment_variables["VLLM_WORKER_MULTIPROC_METHOD"] = lambda: "forkserver"


def imports_begin() -> None:
    """Where the processes of this runtime will be forked, start the one that imports what they
    need.
    """
    if engine_needs_gpu():
        return
    environment_set("cpu")
    # torch and the C library read them when they start; a rank wants the same
    # (training/cpu/process.py).
    with started_with(child_variables("cpu", ()) | {"DS_ACCELERATOR": "cpu"}):
        fork_server_begin([PRELOADED])


def environment_set(device: str) -> None:
    """What vLLM reads when it is imported: call it before."""
    os.environ.setdefault(SWITCH, FIRST)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("PYTHONHASHSEED", "0")
    if "VLLM_RPC_BASE_PATH" not in os.environ:
        os.environ["VLLM_RPC_BASE_PATH"] = str(sockets_folder())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # its processes are all on this machine
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "=lo")
    if device == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
        os.environ.setdefault("OMP_NUM_THREADS", str(machine_share.cpus()))
        # Threads that wait by spinning starve each other as soon as anything else runs: with one
        # other busy process on two cores 8 tokens take 5.7 s, and 0.84 s with threads that sleep
        # (alone: 0.62 s and 0.75 s).
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # But to wake a sleeping thread takes as long as a small kernel, ten times in each layer. To
        # spin for some 50 us before it sleeps spares most of that: a decoding step of 16 sequences
        # takes 54 ms instead of 69, with other work on both cores too; ten times as many spins gain
        # nothing more. GNU's OpenMP reads it, others do not.
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
        # The trainer uses the same cores between the engine's turns: nothing may be bound to one.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def how_ended(llm: "AsyncLLM", wait_s: float = 0.0) -> str:
    """How the process of vLLM's core ended, in words, which it may be about to do: ``wait_s`` is
    for that.

    An exit code does not say why. The core has written it, which is in the runtime's log.
    """
    client: Any = llm.engine_core
    manager = client.resources.engine_manager
    # vLLM's own thread reads the exit code first: of two that read it at once, one gets another.
    if manager is not None and manager.manager_stopped.wait(wait_s):
        for code in (process.exitcode for process in manager.processes):
            if code is not None:
                return exit_text(code) + (" (the runtime's log says why)" if code >= 0 else "")
    return "failed (the runtime's log says why)"


async def failed_call(llm: "AsyncLLM", error: Exception, doing: str = "generating") -> EngineDead:
    """What a call, ``doing`` in words, raises for vLLM's ``error``.

    Of a core that has ended, vLLM says no more than that it did.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    if isinstance(error, EngineDeadError):
        return EngineDead(
            f"the engine's process {await asyncio.to_thread(how_ended, llm, ENDS_S)} while {doing}"
        )
    return EngineDead(f"the engine failed while {doing}: {error}")


@asynccontextmanager
async def device_turn(
    llm: "AsyncLLM", doing: str, limit_s: float, memory_share: float | None
) -> AsyncIterator[None]:
    """A call of vLLM about the memory of its devices, ``doing`` in words, which ends within
    ``limit_s``.

    Raises DeviceMemoryShort where the devices have too little, which the next start would meet
    again; EngineDead for every other failure; WeightsRefused as it is.
    """
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise EngineDead(f"the engine did not end before its deadline: {doing}") from error
    except WeightsRefused:
        raise
    except Exception as error:  # vLLM gives what failed in its core's process no type of its own
        if SHORT in str(error).lower():
            raise DeviceMemoryShort(
                await asyncio.to_thread(_short_words, doing, memory_share)
            ) from error
        raise await failed_call(llm, error, doing) from error


def _short_words(doing: str, memory_share: float | None) -> str:
    """Both numbers: what the engine takes, and what is free beside the trainer."""
    told = (
        f"the engine and the trainer do not fit on their GPU together: out of memory while {doing}"
    )
    nvml = nvml_open()
    for gpu in nvml.sample() if nvml else []:
        if gpu.memory_total_bytes is None or gpu.memory_bytes is None:
            continue
        total = gpu.memory_total_bytes / GIB
        free = total - gpu.memory_bytes / GIB
        takes = (
            ""
            if memory_share is None
            else f", of which the engine takes {memory_share * total:.1f} GiB"
        )
        told += f"; {gpu.name} has {total:.1f} GiB{takes}, and {free:.1f} GiB are free"
    return told
