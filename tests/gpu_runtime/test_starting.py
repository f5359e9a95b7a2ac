"""What the processes of a runtime on a CPU import is imported once, in the process that they are
forked from.
"""

import asyncio
import gc
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpu_runtime.errors import TrainerFailed
from gpu_runtime.processes.paused_gc import gc_paused
from gpu_runtime.processes.starting import VARIABLE
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import RankProcesses
from support.idle_rank import idle_rank
from tinkerscript.wire.config import SessionConfig

PROGRAM = """
import os, signal, sys
from gpu_runtime.processes.starting import fork_server_begin, process_context
from gpu_runtime.processes.starting import kept_from_children

def look(connection):
    is_kept = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    connection.send((os.getppid(), "slow_to_import" in sys.modules, is_kept))

def looked(device):
    context = process_context(device)
    ours, theirs = context.Pipe()
    process = context.Process(target=look, args=(theirs,))
    with kept_from_children():
        process.start()
    seen = ours.recv()
    process.join()
    return seen

if __name__ == "__main__":
    before = looked("cpu")
    fork_server_begin(["slow_to_import"])
    fork_server_begin(["slow_to_import"])
    first, second, on_gpu = looked("cpu"), looked("cpu"), looked("cuda")
    is_kept = sys.argv[1] != "0"
    assert before == on_gpu == (os.getpid(), False, is_kept)
    assert first == second == (first[0], True, is_kept) and first[0] != os.getpid()
"""


@pytest.mark.system
@pytest.mark.parametrize("notice_s", ["0", "50"])
def test_processes_on_a_cpu_are_forked_from_one_that_has_imported_and_those_of_a_gpu_are_not(
    tmp_path: Path, notice_s: str
) -> None:
    """Where a notice is given that the machine is taken away, it ends none of them, forked or
    not.
    """
    once = f"import os; os.open({str(tmp_path / 'once')!r}, os.O_CREAT | os.O_EXCL)"
    (tmp_path / "slow_to_import.py").write_text(once)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, VARIABLE: notice_s}
    done = subprocess.run(
        [sys.executable, program, notice_s],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "once").exists()


@pytest.mark.system
@pytest.mark.parametrize("is_begun", [False, True])
async def test_ranks_that_are_closed_while_they_start_are_ended(is_begun: bool) -> None:
    ranks = RankProcesses(RankSpec("", SessionConfig(), 0, 1, "", "cpu", 1), idle_rank)
    starting = asyncio.create_task(ranks.ready())
    await asyncio.sleep(0)  # now it has the turn of the first command
    if is_begun:
        await asyncio.sleep(0)  # now a thread starts them
    await ranks.close()
    with pytest.raises(TrainerFailed):
        await asyncio.wait_for(starting, 60)
    assert len(ranks.processes) == is_begun
    assert not any(process.is_alive() for process in ranks.processes)
    with pytest.raises(TrainerFailed):
        await ranks.ready()


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_imported_is_not_looked_through_for_garbage_and_what_comes_later_is(
    fails: bool,
) -> None:
    try:
        with pytest.raises(ImportError) if fails else nullcontext(), gc_paused():
            assert not gc.isenabled()
            imported: list[object] = [[] for _ in range(1000)]
            if fails:
                raise ImportError
        assert gc.isenabled() and gc.get_freeze_count() >= 1000
        later: list[object] = []
        later.append(later)
        kept = {id(each) for each in gc.get_objects()}
        assert id(later) in kept and not any(id(each) in kept for each in imported)
    finally:
        gc.unfreeze()


BAR = """
import sys
from gpu_runtime.processes.starting import fork_server_begin, process_context
from gpu_runtime.training.rank_process import rank_main
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.wire.config import SessionConfig

class Bars:
    def __init__(self, spec, on_progress):
        from tqdm import tqdm
        list(tqdm(range(2), disable=True))

    def semaphores(self):
        return [line for line in open("/proc/self/maps") if "/sem." in line]

if __name__ == "__main__":
    if sys.argv[1] == "forked":
        fork_server_begin(["json"])
    context = process_context("cpu")
    ours, theirs = context.Pipe()
    spec = RankSpec("", SessionConfig(), 0, 1, "", "cpu", 1)
    rank = context.Process(target=rank_main, args=(theirs, spec, Bars))
    rank.start()
    ours.send(("semaphores", ()))
    said = ours.recv()
    theirs.close()
    ours.close()
    rank.join()
    assert said == ("ok", []), said
"""


@pytest.mark.system
@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_a_progress_bar_makes_no_semaphore_that_outlives_a_killed_process(
    tmp_path: Path, how: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(BAR)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, program, how], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.engine
def test_what_is_forked_for_an_engine_has_such_a_lock_too() -> None:
    said = "from tqdm import tqdm; import gpu_runtime.engine.cpu.preloaded, threading; "
    said += "assert isinstance(tqdm.get_lock(), type(threading.RLock()))"
    subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, timeout=300)


@pytest.mark.engine
def test_the_engines_executor_makes_no_semaphore_and_no_file_among_the_temporary_ones(
    tmp_path: Path,
) -> None:
    """One forked by a server would leave both when it is killed."""
    program = tmp_path / "program.py"
    program.write_text(EXECUTOR)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "VLLM_RPC_BASE_PATH": "/a/folder",
    }
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


EXECUTOR = """
import multiprocessing
from types import SimpleNamespace

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")  # as in a process that was forked by one
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.executor import uniproc_executor
    from gpu_runtime.engine.vllm_process import executor

    given = {}

    class Worker:
        def __init__(self, **_):
            pass
        def init_worker(self, all_kwargs):
            given.update(all_kwargs[0])
            raise SystemExit

    uniproc_executor.WorkerWrapperBase = Worker
    made = object.__new__(resolve_obj_by_qualname(executor(1)))
    made.vllm_config = SimpleNamespace(device_config=SimpleNamespace(device="cpu"))
    uniproc_executor.set_worker_net_device = lambda *_: None
    try:
        made._init_executor()
    except SystemExit:
        pass
    assert given["distributed_init_method"].startswith("file:///a/folder/vllm_dist_"), given
    assert "/sem." not in open("/proc/self/maps").read()
"""
