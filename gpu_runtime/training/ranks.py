"""Starts the trainer's ranks as child processes and speaks to them: one command, one answer from each, a deadline.

Processes of their own, even for one rank: a crash or a stuck collective then ends a child that can be killed and
reported, never the gateway that holds acknowledged episodes.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.errors import OutOfMemory, PlacementImpossible, StepRefused, TrainerFailed, TrainerKilled
from gpu_runtime.interfaces import Sample
from gpu_runtime.stacks import stacks_folder, stacks_on_signal
from tinkerscript.wire.config import SessionConfig

from .heap import heap_keep

if TYPE_CHECKING:
    from .trainer import RankTrainer

# Seconds in which a command must be answered or, if it is a long one, said to advance. The last resort: the watchdog,
# which knows the stacks, has shorter ones (deadlines.py).
START_S, STEP_S, WEIGHTS_S = 900.0, 3600.0, 1800.0
JOIN_S = 10.0
LOOPBACK = "127.0.0.1"
ALLOCATOR_SAYS = ("can't allocate memory", "not enough memory", "out of memory")
# oneDNN gives no reason; what it was asked for had been found possible before it says so.
ONEDNN_SAYS = ("could not create a primitive", "could not execute a primitive")


@dataclass(frozen=True)
class RankSpec:
    """What a rank is told at birth. ``device`` is "cpu" or "cuda"; ``threads`` its share of the cores."""

    base_model_path: str
    config: SessionConfig
    rank: int
    world_size: int
    master_port: int
    device: str
    threads: int
    gpus: tuple[str, ...] = ()  # what it may see; none: whatever its parent sees
    shares_device: bool = False  # with the engine


class TrainerRanks:
    """interfaces.Trainer over ``config.trainer_ranks`` processes. Raises PlacementImpossible for what needs a GPU."""

    def __init__(
        self, base_model_path: str, config: SessionConfig, device: str, *, gpus: Sequence[str] = (),
        shares_device: bool = False,
    ) -> None:  # fmt: skip
        if config.offload_optimizer and device == "cpu":
            raise PlacementImpossible("offload_optimizer moves moments from a GPU to the host; this machine has no GPU")
        self.dtype = dtype_name(config.dtype, device)
        self._world = config.trainer_ranks
        self._lock = asyncio.Lock()
        threads = max(1, (os.cpu_count() or 1) // self._world)
        self._spec = RankSpec(base_model_path, config, 0, self._world, 0, device, threads, tuple(gpus), shares_device)
        self.on_progress: Callable[[], None] = lambda: None
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        port = _free_port()
        self._connections, self._processes = [], []
        for rank in range(self._world):
            spec = replace(self._spec, rank=rank, master_port=port)
            ours, theirs = context.Pipe()
            process = context.Process(target=rank_main, args=(theirs, spec), name=f"trainer-rank-{rank}", daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    async def ready(self) -> None:
        """Return once every rank has loaded the model. Raises TrainerFailed."""
        await self._call("ping", deadline_s=START_S)

    async def forward_backward(self, samples: Sequence[Sample]) -> dict[str, float]:
        return await self._call("forward_backward", list(samples), deadline_s=STEP_S)

    async def optim_step(self, step: int) -> dict[str, float]:
        return await self._call("optim_step", step, deadline_s=STEP_S)

    async def drop_gradient(self) -> None:
        await self._call("drop_gradient", deadline_s=STEP_S)

    async def restart(self) -> None:
        await self.close()
        for connection in self._connections:
            connection.close()
        self._start()
        await self.ready()

    async def publish(self, folder: Path) -> None:
        await self._call("publish", folder, deadline_s=WEIGHTS_S)

    async def export_model(self, folder: Path) -> None:
        await self._call("export_model", folder, deadline_s=WEIGHTS_S)

    async def save_state(self, folder: Path) -> None:
        await self._call("save_state", folder, deadline_s=WEIGHTS_S)

    async def load_state(self, folder: Path) -> None:
        await self._call("load_state", folder, deadline_s=WEIGHTS_S)

    @property
    def dead(self) -> bool:
        """Whether a rank has ended."""
        return any(not process.is_alive() for process in self._processes)

    async def close(self) -> None:
        for process in self._processes:
            process.kill()  # a rank holds nothing that is not saved elsewhere
        for process in self._processes:
            await asyncio.to_thread(process.join, JOIN_S)

    async def _call(self, command: str, *arguments: object, deadline_s: float) -> Any:
        async with self._lock:
            return await asyncio.to_thread(self._exchange, command, arguments, deadline_s)

    def _exchange(self, command: str, arguments: tuple[object, ...], deadline_s: float) -> Any:
        """One answer of each rank. The first that is an error ends the exchange: the others may wait for that rank."""
        with suppress(BrokenPipeError, ConnectionResetError):  # a rank that is gone says so below, by its sentinel
            for connection in self._connections:
                connection.send((command, arguments))
        answers: dict[int, tuple[str, Any]] = {}
        heard_at = time.monotonic()
        while len(answers) < self._world:
            owing = [rank for rank in range(self._world) if rank not in answers]
            waited_for = [it for rank in owing for it in (self._connections[rank], self._processes[rank].sentinel)]
            ready = wait(waited_for, timeout=max(0.0, heard_at + deadline_s - time.monotonic()))
            if not ready:
                raise TrainerFailed(f"trainer ranks {owing} made no progress in {command} for {deadline_s:g} s")
            for rank in owing:
                if self._connections[rank] in ready:
                    kind, value = self._receive(rank, command)
                    heard_at = time.monotonic()
                    if kind == "progress":
                        self.on_progress()
                    else:
                        answers[rank] = kind, value
                elif self._processes[rank].sentinel in ready:
                    raise self._lost(rank, command)
        if answers[0][0] == "refused":
            raise StepRefused(answers[0][1])
        return answers[0][1]

    def _receive(self, rank: int, command: str) -> tuple[str, Any]:
        try:
            kind, value = self._connections[rank].recv()
        except (EOFError, ConnectionResetError):
            raise self._lost(rank, command) from None
        if kind == "out_of_memory":
            for process in self._processes:  # now: they hold the memory, and the others wait for this rank
                process.kill()
            raise OutOfMemory(f"trainer rank {rank} ran out of memory in {command}: {value}")
        if kind == "failed":
            raise TrainerFailed(value)
        return kind, value

    def _lost(self, rank: int, command: str) -> TrainerFailed:
        process = self._processes[rank]
        process.join(JOIN_S)
        killed = process.exitcode == -signal.SIGKILL
        kind = TrainerKilled if killed else TrainerFailed
        how = "was killed" if killed else f"ended with exit code {process.exitcode}"
        return kind(f"trainer rank {rank} {how} during {command}")


def dtype_name(wanted: str, device: str) -> str:
    """``auto`` is float32 on a CPU, where bfloat16 is slower and less exact, and bfloat16 on a GPU."""
    if wanted == "auto":
        return "bfloat16" if device == "cuda" else "float32"
    return wanted


def rank_main(connection: Connection, spec: RankSpec) -> None:
    """A rank's life: load, then answer commands until the parent goes away."""
    stacks_on_signal(stacks_folder(), f"trainer-rank-{spec.rank}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when a rank ends
    rank_environment(spec)
    if spec.device == "cpu":
        heap_keep()
    trainer = None
    while True:
        try:
            command, arguments = connection.recv()
        except EOFError:
            return
        try:
            if trainer is None:
                trainer = rank_load(spec)
                trainer.on_row = lambda: connection.send(("progress", None))
            result = None if command == "ping" else getattr(trainer, command)(*arguments)
            connection.send(("ok", result))
        except StepRefused as refusal:
            connection.send(("refused", str(refusal)))
        except Exception as error:  # noqa: BLE001 - the top of the rank's loop: the parent fails the unit of work
            traceback.print_exc(file=sys.stderr)
            kind = "out_of_memory" if is_out_of_memory(error) else "failed"
            connection.send((kind, f"{type(error).__name__}: {error}"))


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed: torch names it on a GPU, and on a CPU only says so."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError):
        return False
    return str(error) in ONEDNN_SAYS or any(words in str(error) for words in ALLOCATOR_SAYS)


def rank_environment(spec: RankSpec) -> None:
    """What torch and DeepSpeed read when they are imported and when the ranks meet."""
    os.environ.update(
        MASTER_ADDR=LOOPBACK,
        MASTER_PORT=str(spec.master_port),
        RANK=str(spec.rank),
        LOCAL_RANK=str(spec.rank),
        WORLD_SIZE=str(spec.world_size),
        GLOO_SOCKET_IFNAME="lo",
        OMP_NUM_THREADS=str(spec.threads),
        OMP_WAIT_POLICY="PASSIVE",  # as for the engine: spinning threads starve whoever shares the cores
        DS_ACCELERATOR=spec.device,
    )
    if spec.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)


def rank_load(spec: RankSpec) -> "RankTrainer":
    """The RankTrainer of ``spec``, in this process, whose environment is the rank's."""
    # Here and not above: the parent must not pay for torch, and the environment must be set first.
    import deepspeed
    import torch

    from .trainer import RankTrainer

    # DeepSpeed would compile its shared-memory all-reduce at first use, and stop where no compiler is; gloo serves.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    torch.set_num_threads(spec.threads)
    backend = "nccl" if spec.device == "cuda" else "gloo"
    _meet(spec, backend)
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
    return RankTrainer(spec)


def _meet(spec: RankSpec, backend: str) -> None:
    """Make the process group, which DeepSpeed takes as it is.

    Left to itself, torch has rank 0 listen on every interface of the machine, and asks nobody who calls for a key.
    """
    import torch
    from torch.distributed import TCPStore, init_process_group, is_initialized

    if is_initialized():
        return
    leads = spec.rank == 0
    listener = socket.create_server((LOOPBACK, spec.master_port)).detach() if leads else None  # the store closes it
    store = TCPStore(LOOPBACK, spec.master_port, spec.world_size, is_master=leads, master_listen_fd=listener)
    # As DeepSpeed would: ranks of NCCL name their device.
    device = torch.device("cuda", spec.rank) if backend == "nccl" and spec.world_size > 1 else None
    init_process_group(backend, store=store, rank=spec.rank, world_size=spec.world_size, device_id=device)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]
