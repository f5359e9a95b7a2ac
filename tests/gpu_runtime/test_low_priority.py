"""What gives way has a lower priority than the process's other threads, which keep theirs."""

import os
import subprocess
import sys
import threading

import pytest

from gpu_runtime.processes.low_priority import LOWER, LOWEST, run_at_low_priority
from gpu_runtime.training.rank_spec import RankSpec, loading
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="threads have no priority of their own"
)


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def lowered() -> int:
    return min(priority() + LOWER, LOWEST)


def spec_of(device: str, ranks: int) -> RankSpec:
    return RankSpec("", SessionConfig(), 0, ranks, "", device, 1)


def started_inside() -> list[int]:
    """The priorities of the thread that works and of one that it starts."""
    found = [priority()]
    thread = threading.Thread(target=lambda: found.append(priority()))
    thread.start()
    thread.join()
    return found


def test_work_and_the_threads_that_it_starts_give_way_and_who_waits_for_it_does_not() -> None:
    before = priority()
    assert run_at_low_priority(started_inside) == [lowered()] * 2
    assert priority() == before and started_inside() == [before] * 2


def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_at_low_priority(lambda: 1 // 0)


@pytest.mark.system
def test_a_process_that_has_the_lowest_priority_works_at_it() -> None:
    imported = "import os; from gpu_runtime.processes.low_priority import run_at_low_priority"
    program = f"{imported}; os.nice(19); print(run_at_low_priority(lambda: 7))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "7"


@pytest.mark.parametrize(
    ("device", "ranks", "gives_way"), [("cpu", 1, True), ("cpu", 2, False), ("cuda", 1, False)]
)
def test_a_single_rank_on_a_cpu_loads_so(device: str, ranks: int, gives_way: bool) -> None:
    assert loading(spec_of(device, ranks), priority) == (lowered() if gives_way else priority())
