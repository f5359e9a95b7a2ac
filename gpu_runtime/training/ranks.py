"""Starts the trainer's ranks as child processes and speaks to them: one command, one answer from each, a deadline.

Processes of their own, even for one rank: a crash or a stuck collective then ends a child that can be killed and
reported, never the gateway that holds acknowledged episodes.
"""

import asyncio
import faulthandler
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from gpu_runtime.errors import StepRefused, TrainerFailed
from gpu_runtime.interfaces import Sample
from tinkerscript.wire.config import SessionConfig

# Deadlines in seconds. A step is bounded by the batch, so generously; the rest by the size of the model.
START_S, STEP_S, WEIGHTS_S = 600.0, 3600.0, 1800.0


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


class TrainerRanks:
    """interfaces.Trainer over ``config.trainer_ranks`` processes. Raises TrainerFailed for what needs a GPU."""

    def __init__(self, base_model_path: str, config: SessionConfig, device: str) -> None:
        if config.offload_optimizer and device == "cpu":
            raise TrainerFailed("offload_optimizer moves moments from a GPU to the host; this machine has no GPU")
        self.dtype = dtype_name(config.dtype, device)
        self._world = config.trainer_ranks
        self._lock = asyncio.Lock()
        context = multiprocessing.get_context("spawn")
        port = _free_port()
        threads = max(1, (os.cpu_count() or 1) // self._world)
        self._connections: list[Connection] = []
        self._processes = []
        for rank in range(self._world):
            spec = RankSpec(base_model_path, config, rank, self._world, port, device, threads)
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
            await asyncio.to_thread(process.join, 10)

    async def _call(self, command: str, *arguments: object, deadline_s: float):
        async with self._lock:
            return await asyncio.to_thread(self._exchange, command, arguments, deadline_s)

    def _exchange(self, command: str, arguments: tuple, deadline_s: float):
        deadline = time.monotonic() + deadline_s
        try:
            for connection in self._connections:
                connection.send((command, arguments))
            answers = [self._answer(rank, command, deadline) for rank in range(self._world)]
        except (BrokenPipeError, EOFError, ConnectionResetError):
            raise TrainerFailed(f"a trainer rank ended during {command}; its output is in the log") from None
        for kind, value in answers:
            if kind == "refused":
                raise StepRefused(value)
            if kind == "failed":
                raise TrainerFailed(value)
        return answers[0][1]

    def _answer(self, rank: int, command: str, deadline: float) -> tuple[str, object]:
        connection, process = self._connections[rank], self._processes[rank]
        ready = wait([connection, process.sentinel], timeout=max(0.0, deadline - time.monotonic()))
        if connection in ready:
            return connection.recv()
        if ready:
            raise TrainerFailed(f"trainer rank {rank} ended with exit code {process.exitcode} during {command}")
        os.kill(process.pid, signal.SIGUSR1)  # faulthandler writes its stacks to the log
        raise TrainerFailed(f"trainer rank {rank} made no progress in {command} before its deadline")


def dtype_name(wanted: str, device: str) -> str:
    """``auto`` is float32 on a CPU, where bfloat16 is slower and less exact, and bfloat16 on a GPU."""
    if wanted == "auto":
        return "bfloat16" if device == "cuda" else "float32"
    return wanted


def rank_main(connection: Connection, spec: RankSpec) -> None:
    """A rank's life: load, then answer commands until the parent goes away."""
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when a rank ends
    rank_environment(spec)
    trainer = None
    while True:
        try:
            command, arguments = connection.recv()
        except EOFError:
            return
        try:
            if trainer is None:
                trainer = rank_load(spec)
            result = None if command == "ping" else getattr(trainer, command)(*arguments)
            connection.send(("ok", result))
        except StepRefused as refusal:
            connection.send(("refused", str(refusal)))
        except Exception as error:  # noqa: BLE001 - the top of the rank's loop: the parent fails the unit of work
            traceback.print_exc(file=sys.stderr)
            connection.send(("failed", f"{type(error).__name__}: {error}"))


def rank_environment(spec: RankSpec) -> None:
    """What torch and DeepSpeed read when they are imported and when the ranks meet."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(spec.master_port),
        RANK=str(spec.rank),
        LOCAL_RANK=str(spec.rank),
        WORLD_SIZE=str(spec.world_size),
        OMP_NUM_THREADS=str(spec.threads),
        OMP_WAIT_POLICY="PASSIVE",  # as for the engine: spinning threads starve whoever shares the cores
        DS_ACCELERATOR=spec.device,
    )


def rank_load(spec: RankSpec):
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
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
    return RankTrainer(spec)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
