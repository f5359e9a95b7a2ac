"""No runtime is silent for long: whatever stands still ends it, with a name and the stacks of its
processes.
"""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

from gpu_runtime.control_plane import watchdog as watchdog_module
from gpu_runtime.control_plane.watchdog import FROZEN, Watchdog
from gpu_runtime.engine import arguments
from gpu_runtime.engine import vllm_engine as engine
from gpu_runtime.errors import Stuck
from gpu_runtime.health.stack_dumps import stacks_collect, stacks_register
from gpu_runtime.health.status import DEADLINES_S, Phase, Status
from gpu_runtime.training import remote_model
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import plane_assign, running, tiny_model
from support.waiting import eventually

STUCK_S, PATIENT_S = 0.4, 2.0
LONGEST_S = 15 * 60  # what a session may be silent for, by its control plane too


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def plane(model: Path):
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, model, max_staleness=0)
        yield plane


@pytest.fixture
def runtime(plane: FakeControlPlane, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watchdog_module, "TICK_S", 0.05)
    return lambda: running(plane, tmp_path / "volume", model, monkeypatch)


def stuck_events(plane: FakeControlPlane) -> list[dict]:
    entries = [entry["data"] for entry in list(plane.entries.values()) if entry["kind"] == "event"]
    return [data for data in entries if data["name"] == "stuck"]


def freeze(at: str) -> Callable:
    """A ``reach`` that never leaves ``at``."""

    async def reach(point: str) -> None:
        if point == at:
            await asyncio.Event().wait()

    return reach


@pytest.mark.system
@pytest.mark.parametrize(
    ("part", "point", "phase", "doing"),
    [
        ("trainer", "forward_backward 1", Phase.TRAINING, "training step 1"),
        ("trainer", "optim_step 1", Phase.TRAINING, "training step 1"),
        ("engine", "load_weights 1", Phase.HANDOVER, "handing over the weights of step 1"),
        ("trainer", "save_state", Phase.SAVING, "saving the state of step 1"),
        ("engine", "generate", Phase.GENERATION, "the engine sampled nothing"),
    ],
)
async def test_what_stands_still_ends_the_runtime_with_its_stacks_on_the_record(
    plane, runtime, model, monkeypatch, part: str, point: str, phase: Phase, doing: str
) -> None:
    plane_assign(plane, model, max_staleness=0, checkpoint_every_steps=1)
    monkeypatch.setitem(DEADLINES_S, phase, STUCK_S)
    async with runtime() as it:
        getattr(it, part).reach = freeze(point)
        playing = asyncio.create_task(it.play_groups("a", "b"))
        with pytest.raises(Stuck, match=doing):
            await asyncio.wait_for(it.task, 60)
        assert it.engine.closed and it.trainer.closed
        await asyncio.gather(playing, return_exceptions=True)
    (event,) = stuck_events(plane)
    assert event["cause"].startswith(doing)
    assert "== runtime." in event["stacks"] and "stacks_collect (" in event["stacks"]


@pytest.mark.system
async def test_an_export_that_stands_still_ends_the_runtime(plane, runtime, monkeypatch) -> None:
    monkeypatch.setitem(DEADLINES_S, Phase.SAVING, STUCK_S)
    async with runtime() as it:
        it.trainer.reach = freeze("export_model")
        it.order("ckp_model", "model")
        with pytest.raises(Stuck, match="exporting the model of step 0"):
            await asyncio.wait_for(it.task, 60)


@pytest.mark.system
async def test_the_next_runtime_goes_on_where_the_stuck_one_stood(
    plane, runtime, monkeypatch
) -> None:
    monkeypatch.setitem(DEADLINES_S, Phase.TRAINING, STUCK_S)
    async with runtime() as it:
        it.trainer.reach = freeze("optim_step 1")
        await it.play_groups("a", "b")
        with pytest.raises(Stuck):
            await asyncio.wait_for(it.task, 60)
    # this one trains, however slow the machine is
    monkeypatch.setitem(DEADLINES_S, Phase.TRAINING, 60.0)
    async with runtime() as it:
        assert it.status["policy_version"] == 1 and it.trainer.steps == [1]
        await it.end()


async def test_a_step_that_advances_is_left_alone_however_long_it_takes(
    plane, runtime, monkeypatch
) -> None:
    monkeypatch.setitem(DEADLINES_S, Phase.TRAINING, PATIENT_S)
    async with runtime() as it:

        async def reach(point: str) -> None:
            end = time.monotonic() + 1.5 * PATIENT_S
            while point == "forward_backward 1" and time.monotonic() < end:
                it.agents[0].status.advance()
                await asyncio.sleep(PATIENT_S / 40)

        it.trainer.reach = reach
        await it.play_groups("a", "b")
        await it.stepped(1)
        await it.end()
    assert stuck_events(plane) == []


async def test_a_fault_that_ends_a_runtime_is_on_the_record(plane, runtime) -> None:
    async with runtime() as it:
        it.engine.dead = True
        await eventually(it.task.done)
    events = [entry["data"] for entry in plane.entries.values() if entry["kind"] == "event"]
    (event,) = [event for event in events if event["name"] == "runtime_fault"]
    assert (event["code"], event["cause"]) == ("engine_dead", "the engine's process was killed")


async def test_a_frozen_interpreter_is_reported_by_the_next_runtime(
    plane, runtime, tmp_path: Path
) -> None:
    folder = tmp_path / "volume" / "stacks"
    folder.mkdir(parents=True)
    (folder / FROZEN).write_text('Timeout!\nThread 0x1\n  File "engine.py", line 3 in generate\n')
    async with runtime() as it:
        await eventually(lambda: stuck_events(plane))
        await it.end()
    (event,) = stuck_events(plane)
    assert "interpreter stood still" in event["cause"] and "line 3 in generate" in event["stacks"]
    assert not (folder / FROZEN).exists()


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_what_stands_still_is_reported_and_ended(
    ends_by_itself: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the watchdog's own thread: asked to end first, and ended where it does not."""
    monkeypatch.setattr(watchdog_module, "TICK_S", 0.001)
    monkeypatch.setattr(watchdog_module, "EXIT_S", 0.0)
    monkeypatch.setattr(watchdog_module, "stacks_collect", lambda folder: "the stacks")
    ended, done = [], threading.Event()
    monkeypatch.setattr(watchdog_module.os, "_exit", lambda code: done.set() or ended.append(code))
    status = SimpleNamespace(stuck=lambda: "training step 3: no progress", advance=lambda: None)
    asked: list[object] = []

    def give_up(fault: Stuck) -> None:
        asked.append(fault)
        if ends_by_itself:
            done.set()

    agent = SimpleNamespace(
        status=status,
        report=lambda kind, data, *, key: asked.append(f"{data['cause']}, {data['stacks']}"),
        drain=lambda seconds: asked.append("drain"),
        give_up=give_up,
    )
    with Watchdog(agent, tmp_path / "stacks", hard_exit=not ends_by_itself) as dog:
        assert done.wait(25)
        dog._thread.join(25)  # noqa: SLF001 - it ends by itself
        if not ends_by_itself:
            dog._frozen.close()  # noqa: SLF001
    assert asked[:2] == ["training step 3: no progress, the stacks", "drain"]
    assert isinstance(asked[2], Stuck) and len(asked) == 3
    assert ended == ([] if ends_by_itself else [watchdog_module.EXIT_CODE])


def test_a_frozen_interpreter_is_ended_by_a_timer_that_the_watchdog_winds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_module, "TICK_S", 0.001)
    wound, seen = [], threading.Event()

    def wind(seconds: float, **options: object) -> None:
        wound.append((seconds, options["exit"]))
        seen.set()

    timer = SimpleNamespace(
        dump_traceback_later=wind, cancel_dump_traceback_later=lambda: wound.append("cancelled")
    )
    monkeypatch.setattr(watchdog_module, "faulthandler", timer)
    agent = SimpleNamespace(status=Status())
    with Watchdog(agent, tmp_path / "stacks", hard_exit=True) as dog:
        assert seen.wait(25)
    dog._thread.join(25)  # noqa: SLF001 - it ends by itself
    dog._frozen.close()  # noqa: SLF001
    assert (watchdog_module.INTERPRETER_S, True) in wound and "cancelled" in wound
    assert watchdog_module.INTERPRETER_S < LONGEST_S


def test_no_session_can_be_silent_for_longer_than_a_quarter_of_an_hour() -> None:
    assert set(DEADLINES_S) == set(Phase)
    assert (
        max(DEADLINES_S.values()) + watchdog_module.EXIT_S + watchdog_module.REPORT_S <= LONGEST_S
    )


def test_a_runtime_sends_its_stacks_before_the_control_plane_gives_it_up() -> None:
    """The control plane and the commands of ranks and engine have deadlines too, but none of them
    knows the stacks.
    """
    others = {
        Phase.LOADING: [remote_model.START_S, arguments.START_S],
        Phase.HANDOVER: [engine.HANDOVER_S, remote_model.WEIGHTS_S],
    }
    others |= {Phase.TRAINING: [remote_model.STEP_S], Phase.SAVING: [remote_model.WEIGHTS_S]}
    for phase, deadline_s in DEADLINES_S.items():
        state = "loading" if phase in (Phase.LOADING, Phase.RESTORING) else "ready"
        limits = [*others.get(phase, []), settings.PROGRESS_DEADLINES_S[state]]
        assert deadline_s + watchdog_module.EXIT_S <= min(limits), phase


def test_a_new_phase_begins_with_a_fresh_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEADLINES_S, Phase.LOADING, 1000.0)
    monkeypatch.setitem(DEADLINES_S, Phase.TRAINING, 0.0)
    status = Status()
    assert status.stuck() is None
    status.begin(Phase.TRAINING, "training step 3")
    before = status.snapshot()
    time.sleep(0.001)
    assert status.stuck() == "training step 3: no progress for 0 s"
    status.advance()
    assert status.snapshot().progress == before.progress + 1


@pytest.mark.system
@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_computes_without_end_is_read_from_outside(
    tmp_path: Path, stopped: bool
) -> None:
    """Also while it runs no Python, and while it is stopped: nothing runs in it for that, and it
    goes on unharmed.
    """
    program = (
        "import sys; from pathlib import Path; from gpu_runtime.health.stack_dumps import stacks_register\n"
        "stacks_register(Path(sys.argv[1]), 'child'); print('registered', flush=True)\n"
        "def here_it_stands():\n    import threading; threading.Lock().__enter__(); sum(range(10**12))\n"
        "here_it_stands()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "registered\n"
        if stopped:
            child.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while "here_it_stands" not in (stacks := stacks_collect(tmp_path)):
            assert time.monotonic() < deadline, stacks
        assert stacks.startswith(f"== child.{child.pid} ==")
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert stacks_collect(tmp_path) == "", "a process that has ended is not read"


@pytest.mark.system
def test_stacks_that_cannot_be_read_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    stacks_register(tmp_path, "runtime")
    assert "(its stacks could not be read: " in stacks_collect(
        tmp_path
    ) and "py-spy" in stacks_collect(tmp_path)
