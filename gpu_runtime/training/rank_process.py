"""The process of one rank: load the model, then run one command after another until the parent goes
away.

``ranks.py`` starts these processes and sends the commands.
"""

import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from gpu_runtime.cluster.same import same_model_verify
from gpu_runtime.errors import ModelUnsupported, NodesDiffer, StepRefused
from gpu_runtime.failures.input_errors import is_of_input, said
from gpu_runtime.health.stack_dumps import stacks_folder, stacks_register
from gpu_runtime.model_interfaces import InvalidTrainingInput
from gpu_runtime.processes.foreign_peers import foreign_peers_refuse
from gpu_runtime.processes.network import interface_toward
from gpu_runtime.processes.rendezvous import rendezvous_open
from gpu_runtime.processes.starting import bars_lock_set

from .cpu.process import heap_keep, same_bits_keep
from .rank_spec import RankSpec, loading

if TYPE_CHECKING:
    from .trainer import RankTrainer

# Seconds that a rank waits in a collective for the others, whose shares differ in length. torch has
# 600 for NCCL and 1800 for gloo. What makes no progress is ended before, by the parent's deadlines
# (ranks.py) and by its watchdog.
COLLECTIVE_S = 3600.0
ALLOCATOR_SAYS = ("can't allocate memory", "not enough memory", "out of memory")
# oneDNN gives no reason; what it was asked for had been found possible before.
ONEDNN_SAYS = ("could not create a primitive", "could not execute a primitive")


OnRow = Callable[[], None]  # called after each row of a batch, each piece of a state


def rank_main(
    connection: Connection, spec: RankSpec, load: Callable[[RankSpec, OnRow], Any] | None = None
) -> None:
    """The main function of a rank: ``load`` the trainer, then run commands until the parent closes
    the connection.

    Without ``load`` it is ``rank_load``'s.
    """
    stacks_register(stacks_folder(), f"trainer-rank-{spec.rank}")
    _interrupt_ignore()
    rank_environment(spec)
    bars_lock_set()
    if spec.device == "cpu":
        heap_keep()
    trainer: Any = None
    while True:
        try:
            command, arguments = connection.recv()
        except EOFError:
            return
        try:
            if trainer is None:
                trainer = (load or rank_load)(spec, lambda: connection.send(("progress", None)))
            result = None if command == "ping" else getattr(trainer, command)(*arguments)
            connection.send(("ok", result))
        except StepRefused as refusal:
            connection.send(("refused", str(refusal)))
        except InvalidTrainingInput as mistake:
            connection.send(("invalid", str(mistake)))
        except ModelUnsupported as refusal:
            connection.send(("unsupported", str(refusal)))
        except NodesDiffer as refusal:
            connection.send(("differ", str(refusal)))
        except Exception as error:  # noqa: BLE001 - the top of the rank's loop: the parent fails the unit of work
            traceback.print_exc(file=sys.stderr)
            connection.send((kind_of(error), said(error)))


def _interrupt_ignore() -> None:
    """Ctrl-C is for the parent, which ends its ranks. Those that are actors of Ray get none."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def kind_of(error: Exception) -> str:
    """What the parent is told of an error that is none of ours."""
    if is_out_of_memory(error):
        return "out_of_memory"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full"
    return "of_input" if is_of_input(error) else "failed"


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed: torch has a class for it on a GPU, and on a CPU only a
    message.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError):
        return False
    return str(error) in ONEDNN_SAYS or any(words in str(error) for words in ALLOCATOR_SAYS)


def rank_environment(spec: RankSpec) -> None:
    """Set what torch and DeepSpeed read when they are imported and when the process group is
    made.
    """
    interface = interface_toward(spec.peer) if spec.peer else "lo"
    os.environ.update(
        RANK=str(spec.rank),
        LOCAL_RANK=str(spec.local_rank),
        WORLD_SIZE=str(spec.world_size),
        GLOO_SOCKET_IFNAME=interface,
        # by itself NCCL listens on the machine's network, among its own ranks too
        NCCL_SOCKET_IFNAME=f"={interface}",
        OMP_NUM_THREADS=str(spec.threads),
        # as for the engine: spinning threads starve other processes on these cores
        OMP_WAIT_POLICY="PASSIVE",
        DS_ACCELERATOR=spec.device,
    )
    if spec.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)


def rank_load(spec: RankSpec, on_row: OnRow) -> "RankTrainer":
    """The RankTrainer of ``spec``, in this process, whose environment is the rank's."""
    # Here and not above: the parent must not pay for torch, and the environment must be set first.
    import torch

    torch.set_num_threads(spec.threads)
    if spec.device == "cpu":
        same_bits_keep()
    ranks_meet(spec)
    from .trainer import RankTrainer

    if spec.peer:
        same_model_verify(spec.base_model_path, spec.node)
    trainer = loading(spec, lambda: RankTrainer(spec, on_row))
    if spec.world_size > 1:
        foreign_peers_refuse()  # among the groups that DeepSpeed has made meanwhile
    return trainer


def ranks_meet(spec: RankSpec) -> None:
    """Make the process group of a rank that DeepSpeed is to be used in, unless it has one."""
    import deepspeed
    import torch

    # DeepSpeed would compile its shared-memory all-reduce at first use, and fail without a
    # compiler; gloo does instead.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    if spec.device == "cuda":
        # of whatever names none: Triton's kernels, collectives of objects
        torch.cuda.set_device(spec.torch_device)
    backend = "nccl" if spec.device == "cuda" else "gloo"
    _process_group_make(spec, backend)
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)


def _process_group_make(spec: RankSpec, backend: str) -> None:
    """Make the process group, on one machine on its loopback interface; DeepSpeed uses the one that
    exists.

    Ranks on one machine find each other in a file that this user alone can read; on several, at a
    port that rank 0 listens at, on its node's own address. By default rank 0 listens on every
    interface of the machine; and a port that is chosen beforehand may be taken by then.
    """
    import torch
    from torch.distributed import init_process_group, is_initialized

    if is_initialized():
        return
    store = rendezvous_open(spec.rendezvous_path, spec.world_size)
    # As DeepSpeed would: ranks of NCCL name their device.
    device = torch.device(spec.torch_device) if backend == "nccl" and spec.world_size > 1 else None
    init_process_group(
        backend,
        store=store,
        rank=spec.rank,
        world_size=spec.world_size,
        device_id=device,
        timeout=timedelta(seconds=COLLECTIVE_S),
    )
    if spec.world_size > 1:
        foreign_peers_refuse()
