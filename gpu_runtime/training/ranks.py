"""Starts the ranks of the trainer as processes and sends them commands: one result from each rank,
a deadline.

Even a single rank has a process of its own: a crash or a stuck collective then ends a child, which
can be killed and reported, and never the gateway that holds acknowledged episodes.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from gpu_runtime.cluster.group import Group
from gpu_runtime.cluster.rank_actor import LOST_S, RayRank
from gpu_runtime.errors import (
    DiskFull,
    InputUnusable,
    ModelUnsupported,
    NodesDiffer,
    OutOfMemory,
    PlacementImpossible,
    StepRefused,
    TrainerFailed,
    TrainerKilled,
)
from gpu_runtime.model_interfaces import Datum, InvalidTrainingInput
from gpu_runtime.placement import dtype_name
from gpu_runtime.processes.exit_report import ExitReport, errors_captured
from gpu_runtime.processes.starting import environment_now, kept_from_children, process_context
from tinkerscript.processes import machine_share
from tinkerscript.wire.config import SessionConfig

from .rank_process import rank_main
from .rank_spec import RankSpec
from .remote_model import START_S, STEP_S, RemoteModel
from .states.folder import wait_for_parts

JOIN_S = 10.0
NOTICE_S = 1.0  # the end of a killed rank shows a little after its connections are gone


Main = Callable[[Connection, RankSpec], None]


class RankProcesses:
    """The processes of some ranks: one command at a time, sent to all. ``main`` runs in each, with
    its spec. Those of a ``group`` are actors of Ray, as many on each of its nodes.

    ``on_progress`` is called, from any thread, as a command advances.
    """

    def __init__(
        self,
        spec: RankSpec,
        main: Main,
        *,
        group: Group | None = None,
        gpus_elsewhere: Sequence[Sequence[str]] = (),
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._gpus_elsewhere = gpus_elsewhere  # as of ``spec``, of each node but the first
        self.spec, self._main, self._world = spec, main, spec.world_size
        self._group = group
        self._lock = asyncio.Lock()
        self._on_progress = on_progress
        self._connections: list[Any] = []  # each a Connection or a RankConnection
        self.processes: list[Any] = []
        self._words: list[Any] = []  # each an ExitReport or a RayRank
        self._is_closed = False
        self._rendezvous: Path | None = None

    def _start(self) -> None:
        self._connections, self.processes, self._words = [], [], []
        if self._group is not None:
            self._start_actors(self._group)
        else:
            self._start_beside()
        if self._is_closed:  # meanwhile, before they were there
            self._kill()

    def _start_actors(self, group: Group) -> None:
        group.verify()
        nodes = group.nodes
        for rank in range(self._world):
            there = RayRank(group, rank * len(nodes) // self._world, f"trainer-rank-{rank}")
            self._connections.append(there.connection)
            self.processes.append(there)
            self._words.append(there)
        met = self.processes[0].meeting()
        for rank, there in enumerate(self.processes):
            spec = replace(self.spec, rank=rank, rendezvous_path=met)
            there.start(self._main, _placed(spec, group, [self.spec.gpus, *self._gpus_elsewhere]))

    def _start_beside(self) -> None:
        # In the runtime's own folder, which goes with it where it is killed.
        of_runtime = os.environ.get("TINKERSCRIPT_RUNTIME_DIR")
        self._rendezvous = Path(mkdtemp(prefix="tinkerscript-ranks-", dir=of_runtime))
        for rank in range(self._world):
            path = str(self._rendezvous / "ranks")
            self._start_rank(replace(self.spec, rank=rank, rendezvous_path=path))

    def _start_rank(self, spec: RankSpec) -> None:
        context, name = process_context(spec.device), f"trainer-rank-{spec.rank}"
        ours, theirs = context.Pipe()
        words = ExitReport(name)
        arguments = (self._main, environment_now(), theirs, words.far, spec)
        process = context.Process(target=_run_rank, args=arguments, name=name, daemon=True)
        try:
            with kept_from_children():
                process.start()
        except (OSError, EOFError) as error:
            raise TrainerFailed(
                f"trainer rank {spec.rank} could not be started: {error}"
            ) from error
        theirs.close()
        words.begin()
        self._connections.append(ours)
        self.processes.append(process)
        self._words.append(words)

    async def ready(self) -> None:
        """Return once every rank has loaded the model. Raises ModelUnsupported, TrainerFailed."""
        await self.call("ping", deadline_s=START_S)

    async def restart(self) -> None:
        await self.close()
        for connection in self._connections:
            connection.close()
        self.processes, self._is_closed = [], False
        await self.ready()

    @property
    def dead(self) -> bool:
        """Whether a rank has ended."""
        return any(not process.is_alive() for process in self.processes)

    def _kill(self) -> None:
        for process in self.processes:
            process.kill()  # a rank holds nothing that is not saved elsewhere

    async def close(self) -> None:
        self._is_closed = True
        self._kill()
        for process in self.processes:
            await asyncio.to_thread(process.join, JOIN_S)
        if self._rendezvous is not None:
            shutil.rmtree(self._rendezvous, ignore_errors=True)

    async def call(self, command: str, *arguments: object, deadline_s: float) -> Any:
        """What the method ``command`` of rank 0's trainer returns, once every rank has made the
        same call. Raises what a rank raised, and TrainerFailed where one is silent for
        ``deadline_s``.
        """
        await self._lock.acquire()
        # Held until there is a result, also where the caller is gone by then: the next command
        # would take it for its own.
        exchange = asyncio.ensure_future(self._exchange(command, arguments, deadline_s))
        exchange.add_done_callback(lambda _: self._lock.release())
        return await asyncio.shield(exchange)

    async def _exchange(
        self, command: str, arguments: tuple[object, ...], deadline_s: float
    ) -> Any:
        if self._is_closed and not self.processes:
            raise TrainerFailed("the trainer was closed before it was started")
        # with the first command, in a thread: it waits for the fork server's imports
        if not self.processes:
            await asyncio.to_thread(self._start)
        return await asyncio.to_thread(self._send_and_receive, command, arguments, deadline_s)

    def _send_and_receive(
        self, command: str, arguments: tuple[object, ...], deadline_s: float
    ) -> Any:
        """The result of rank 0 once every rank has one. The first error ends it: other ranks may
        wait for that rank.
        """
        # a rank that has ended is found below, by its sentinel
        with suppress(BrokenPipeError, ConnectionResetError):
            for connection in self._connections:
                connection.send((command, arguments))
        results: dict[int, tuple[str, Any]] = {}
        progress_at = time.monotonic()
        while len(results) < self._world:
            owing = [rank for rank in range(self._world) if rank not in results]
            waited_for = [
                it
                for rank in owing
                for it in (self._connections[rank], self.processes[rank].sentinel)
            ]
            ready = wait(waited_for, timeout=max(0.0, progress_at + deadline_s - time.monotonic()))
            if not ready:
                raise TrainerFailed(
                    f"trainer ranks {owing} made no progress in {command} for {deadline_s:g} s"
                )
            for rank in owing:
                if self._connections[rank] in ready:
                    kind, value = self._receive(rank, command)
                    progress_at = time.monotonic()
                    if kind == "progress":
                        self._on_progress()
                    else:
                        results[rank] = kind, value
                elif self.processes[rank].sentinel in ready:
                    raise self._lost(rank, command)
        return _result(results)

    def _receive(self, rank: int, command: str) -> tuple[str, Any]:
        try:
            kind, value = self._connections[rank].recv()
        except (EOFError, ConnectionResetError):
            raise self._lost(rank, command) from None
        if kind == "out_of_memory":
            self._kill()  # now: they hold the memory, and the others wait for this rank
            raise OutOfMemory(f"trainer rank {rank} ran out of memory in {command}: {value}")
        if kind == "differ":
            raise NodesDiffer(value)
        if kind == "unsupported":
            raise ModelUnsupported(value)
        if kind == "disk_full":
            raise DiskFull(f"{command}: {value}")
        if kind == "of_input":
            raise self._ended_beside(rank, command) or InputUnusable(f"{command}: {value}")
        if kind == "failed":
            raise self._ended_beside(rank, command) or TrainerFailed(value)
        return kind, value

    def _ended_beside(self, rank: int, command: str) -> TrainerFailed | None:
        """Another rank that has ended: ``rank`` may say first that it lost the connection to that
        one.
        """
        others = {
            process.sentinel: other for other, process in enumerate(self.processes) if other != rank
        }
        # A node that is lost is known of once it has been silent for this long; ranks on others
        # notice it first.
        notice_s = NOTICE_S if self._group is None else LOST_S + NOTICE_S
        ended = wait(list(others), timeout=notice_s) if others else []
        return self._lost(others[ended[0]], command) if ended else None

    def _lost(self, rank: int, command: str) -> TrainerFailed:
        process = self.processes[rank]
        process.join(JOIN_S)
        kind = TrainerKilled if process.exitcode == -signal.SIGKILL else TrainerFailed
        return kind(
            f"trainer rank {rank} {self._words[rank].end_of(process.exitcode)} during {command}"
        )


class TrainerRanks(RankProcesses, RemoteModel):
    """model_interfaces.Trainer over ``config.trainer_ranks`` processes. Raises PlacementImpossible
    for what needs a GPU.
    """

    def __init__(
        self,
        base_model_path: str,
        config: SessionConfig,
        device: str,
        *,
        gpus: Sequence[str] = (),
        shares_device: bool = False,
        group: Group | None = None,
        gpus_elsewhere: Sequence[Sequence[str]] = (),
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        if config.offload_optimizer and device == "cpu":
            raise PlacementImpossible(
                "offload_optimizer moves moments from a GPU to the host; this machine has no GPU"
            )
        if config.offload_activations and device == "cpu":
            raise PlacementImpossible(
                "offload_activations moves them from a GPU to the host; this machine has no GPU"
            )
        self.dtype = dtype_name(config, device)
        world = config.trainer_ranks
        threads = max(1, machine_share.cpus() * config.nodes // world)
        spec = RankSpec(
            base_model_path,
            config,
            0,
            world,
            "",
            device,
            threads,
            tuple(gpus),
            shares_device,
        )
        super().__init__(
            spec, rank_main, group=group, gpus_elsewhere=gpus_elsewhere, on_progress=on_progress
        )

    async def logprobs(self, data: Sequence[Datum], reference: bool = False) -> list[np.ndarray]:
        return await self.call("logprobs", list(data), reference, deadline_s=STEP_S)

    async def parameters(self) -> int:
        return await self.call("parameters", deadline_s=START_S)

    async def flip_weights(self) -> None:
        await self.call("flip_weights", deadline_s=STEP_S)

    async def each_unflipped(self, data: Sequence[Datum]) -> dict[str, list[float]]:
        return await self.call("each_unflipped", list(data), deadline_s=STEP_S)

    async def weights_digest(self) -> str:
        return await self.call("weights_digest", deadline_s=STEP_S)

    async def drop_gradient(self) -> None:
        await self.call("drop_gradient", deadline_s=STEP_S)

    async def save_state(self, folder: Path) -> None:
        await super().save_state(folder)
        if self.spec.config.nodes > 1:
            await wait_for_parts(folder, self._world)


def _result(of_ranks: Mapping[int, tuple[str, Any]]) -> Any:
    """Of rank 0, once every rank has one. Raises what they refused together."""
    for kind, value in of_ranks.values():
        if kind == "invalid":
            raise InvalidTrainingInput(value)
        if kind == "refused":
            raise StepRefused(value)
    return of_ranks[0][1]


def _placed(spec: RankSpec, group: Group, gpus: Sequence[Sequence[str]]) -> RankSpec:
    """The same number of ranks on each node, the first ones beside the runtime."""
    nodes = group.nodes
    own = spec.rank * len(nodes) // spec.world_size
    here = tuple(gpus[own]) if own < len(gpus) else ()
    peer = nodes[1 if own == 0 else 0].address
    return replace(spec, node=nodes[own].name, peer=peer, gpus=here)


def _run_rank(
    main: Callable[[Connection, RankSpec], None],
    environment: dict[str, str],
    connection: Connection,
    errors: Connection,
    spec: RankSpec,
) -> None:
    """A process that is forked has the environment of the fork server: this gives it its
    runtime's.
    """
    os.environ.update(environment)
    with errors_captured(errors):
        main(connection, spec)
