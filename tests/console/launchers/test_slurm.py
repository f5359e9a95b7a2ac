"""The Slurm launcher against a real cluster of two nodes: its queue, its GPUs, its refusals, its
absence.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from console.scheduling.launchers.protocol import LauncherUnavailable, Resources, RuntimeStatus
from console.scheduling.launchers.slurm import SlurmLauncher
from console.scheduling.processes import wait_until
from launching.backends import SHELL, SMALL, WAIT, Backend

pytestmark = pytest.mark.system

WAIT_S = 30
FOREVER = f"echo up; {WAIT}"


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


def test_a_runtime_gets_the_gpus_that_it_asked_for(slurm_backend: Backend) -> None:
    launcher = SlurmLauncher(SHELL, resources=Resources(memory_bytes=64 << 20, cpus=1))
    wanted = slurm_backend.new_handle(launcher, gpus=2)
    program = 'echo "$CUDA_VISIBLE_DEVICES $TINKERSCRIPT_RUNTIME_GPUS"; sleep 60'
    launcher, handle = slurm_backend.start(program, launcher, wanted)
    assert launcher.logs(handle, lines=1) == ["0,1 2"]


def test_a_runtime_knows_the_notice_of_the_operators_own_signal(slurm_backend: Backend) -> None:
    launcher = SlurmLauncher(SHELL, resources=SMALL, options=["--signal=B:TERM@30"])
    launcher, handle = slurm_backend.start(
        'echo "$TINKERSCRIPT_RUNTIME_NOTICE_S"; sleep 60', launcher
    )
    assert launcher.logs(handle, lines=1) == ["20"]


def test_a_runtime_without_a_slot_waits_gives_the_reason_and_can_be_ended(
    slurm_backend: Backend,
) -> None:
    whole = SlurmLauncher(SHELL, resources=Resources(cpus=8), options=["--exclusive"])
    for _ in range(2):
        slurm_backend.start(FOREVER, whole)
    fresh = slurm_backend.new_handle(whole)
    handle = whole.start(fresh, environment={"PROGRAM": FOREVER})
    slurm_backend.started.append((whole, handle))
    assert wait_until(
        lambda: "Resources" in whole.inspect(handle).reason, timeout_s=WAIT_S, poll_s=0.2
    )
    status = whole.inspect(fresh)
    assert status.state == "waiting" and status.is_alive
    whole.stop(handle, grace_s=5)
    assert not whole.inspect(handle).is_alive


def test_a_job_that_slurm_held_is_over(slurm_backend: Backend) -> None:
    later = SlurmLauncher(SHELL, resources=SMALL, options=["--begin=now+1hour"])
    fresh = slurm_backend.new_handle(later)
    handle = later.start(fresh, environment={"PROGRAM": FOREVER})
    slurm_backend.started.append((later, handle))
    assert later.inspect(fresh).state == "waiting"
    slurm("scontrol", "hold", handle["job"])
    assert wait_until(lambda: not later.inspect(handle).is_alive, timeout_s=WAIT_S, poll_s=0.2)
    later.stop(handle, grace_s=0)
    assert (
        slurm(
            "squeue", "--noheader", f"--jobs={handle['job']}", "--states=all", "--format=%T"
        ).strip()
        == "CANCELLED"
    )


def test_the_lease_is_not_among_what_everyone_sees_of_a_job(slurm_backend: Backend) -> None:
    launcher, handle = slurm_backend.start(FOREVER)
    seen = slurm("scontrol", "show", "job", "--details", handle["job"]) + slurm("ps", "-eo", "args")
    assert handle["launch"] in seen and "tml-ls-x" not in seen


def test_a_job_that_slurm_refuses_is_an_os_error_with_its_words(slurm_backend: Backend) -> None:
    launcher = SlurmLauncher(SHELL, resources=SMALL, options=["--partition=nowhere"])
    with pytest.raises(OSError, match="partition"):
        launcher.start(slurm_backend.new_handle(launcher), environment={})


def test_a_controller_that_does_not_answer_is_away_and_no_runtime_is_reported_as_gone(
    slurm_backend: Backend, tmp_path, monkeypatch
) -> None:
    launcher, handle = slurm_backend.start(FOREVER)
    unreachable = re.sub(
        r"SlurmctldPort=\d+",
        "SlurmctldPort=9\nMessageTimeout=1",
        Path(os.environ["SLURM_CONF"]).read_text(),
    )
    (tmp_path / "slurm.conf").write_text(unreachable)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    broken = slurm_backend.launcher()
    for ask in (
        lambda: broken.inspect(handle),
        lambda: broken.stop(handle, grace_s=0),
        lambda: broken.start(slurm_backend.new_handle(broken), environment={}),
    ):
        with pytest.raises(LauncherUnavailable):
            ask()
    monkeypatch.undo()
    assert launcher.inspect(handle) == RuntimeStatus("running")


def test_a_stop_is_told_apart_from_slurms_own_notice(slurm_backend: Backend) -> None:
    """A runtime takes its time after a notice; one that its server stops has only the grace."""
    program = (
        f"trap 'echo notice >told; exit 0' TERM; trap 'echo stop >told; exit 0' INT; {FOREVER}"
    )
    launcher, handle = slurm_backend.start(program)
    assert wait_until(
        lambda: launcher.inspect(handle).state == "running", timeout_s=WAIT_S, poll_s=0.2
    )
    launcher.stop(handle, grace_s=20)
    assert (Path(handle["folder"]) / "told").read_text() == "stop\n"


def test_a_runtime_over_two_nodes_starts_on_the_first_and_its_stop_ends_what_it_started_on_the_other(
    slurm_backend: Backend,
) -> None:
    """On both nodes at once, or the job waits: a gang. Each has what one runtime may use."""
    launcher = slurm_backend.launcher()
    fresh = slurm_backend.new_handle(launcher) | {"nodes": 2}
    beat = "while :; do echo $SLURMD_NODENAME >>beat; sleep 0.1; done"
    program = f"echo $SLURM_JOB_NUM_NODES $SLURMD_NODENAME; srun --overlap -N1 -n1 -w n2 --mem=0 /bin/sh -c '{beat}'"
    launcher, handle = slurm_backend.start(program, launcher, fresh)
    assert launcher.logs(handle, lines=1) == ["2 n1"]
    beats = Path(handle["folder"]) / "beat"
    assert wait_until(
        lambda: beats.exists() and beats.read_text().startswith("n2\n"), timeout_s=WAIT_S
    )
    assert launcher.address(handle, port=7000) == "127.0.0.1:7000"
    launcher.stop(handle, grace_s=0)
    assert not launcher.inspect(handle).is_alive
    counted = beats.stat().st_size
    assert not wait_until(lambda: beats.stat().st_size > counted, timeout_s=1.0)


def test_more_nodes_than_the_cluster_has_are_waited_for_with_slurms_reason(
    slurm_backend: Backend,
) -> None:
    """Some may be drained and come back: Slurm itself makes no difference."""
    launcher = slurm_backend.launcher()
    handle = launcher.start(
        slurm_backend.new_handle(launcher) | {"nodes": 3}, environment={"PROGRAM": FOREVER}
    )
    slurm_backend.started.append((launcher, handle))
    assert wait_until(
        lambda: "NodeLimit" in launcher.inspect(handle).reason, timeout_s=WAIT_S, poll_s=0.2
    )
    assert launcher.inspect(handle).state == "waiting"
