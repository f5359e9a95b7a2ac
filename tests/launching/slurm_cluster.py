"""A real Slurm cluster of two nodes on this machine, on loopback, as root, in a folder that goes
with it.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from console.scheduling.processes import wait_until
from launching.daemons import daemon, folder_remove

START_S, STOP_S = 40, 10
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
CONF = """
ClusterName=tinkerscript-tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2
MpiDefault=none
ReturnToService=2
MinJobAge=300
KillWait=2
GresTypes=gpu
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=8 RealMemory=6144 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm_cluster() -> Iterator[Path]:
    """The cluster's slurm.conf; SLURM_CONF names it meanwhile. Skips where Slurm is not there."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        pytest.skip(
            f"no Slurm: {', '.join(missing)} not installed (apt: slurmctld slurmd slurm-client munge)"
        )
    if os.geteuid() != 0:
        pytest.skip("slurmd is started by root alone")
    folder = Path(tempfile.mkdtemp(prefix="ts-slurm-"))
    before = os.environ.get("SLURM_CONF")
    try:
        with ExitStack() as daemons:
            conf = _configure(folder)
            os.environ["SLURM_CONF"] = str(conf)
            _start(folder, conf, path, daemons)
            yield conf
            subprocess.run(["scancel", "--full", "--signal=KILL", "--me"], timeout=20, check=False)
            subprocess.run(["scancel", "--me"], timeout=20, check=False)
            wait_until(lambda: not _says("squeue", "--noheader"), timeout_s=STOP_S, poll_s=0.2)
    finally:
        os.environ.pop("SLURM_CONF", None)
        if before is not None:
            os.environ["SLURM_CONF"] = before
        folder_remove(folder)


def _configure(folder: Path) -> Path:
    for name in ("state", "spool-n1", "spool-n2", "munge"):
        (folder / name).mkdir(mode=0o755)
    folder.chmod(0o755)
    key = folder / "munge" / "key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(1024))
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(host=socket.gethostname().partition(".")[0], ports=_ports(), folder=folder)
    )
    # Device files that are surely there stand for GPUs: Slurm only looks whether they exist.
    (folder / "gres.conf").write_text("NodeName=n[1-2] Name=gpu File=/dev/tty[20-21]\n")
    (folder / "cgroup.conf").write_text("")
    return conf


def _ports() -> list[int]:
    """One for the controller and two in a row for the nodes."""
    while True:
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", 0))
            port = second.getsockname()[1]
            try:
                third.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return [first.getsockname()[1], port, port + 1]


def _start(folder: Path, conf: Path, path: str, daemons: ExitStack) -> None:
    def start(name: str, *command: object) -> subprocess.Popen[bytes]:
        return daemons.enter_context(daemon(command, log=folder / f"{name}.log", path=path))

    munge = folder / "munge"
    files = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
    started = [
        start("munged", "munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *files)
    ]
    wait_until((munge / "socket").exists, timeout_s=START_S)
    started.append(start("slurmctld", "slurmctld", "-D", "-f", conf))
    started += [
        start(f"slurmd-{node}", "slurmd", "-D", "-N", node, "-f", conf) for node in ("n1", "n2")
    ]

    def is_over() -> bool:
        return _says("sinfo", "--noheader", "--Node", "--format=%T").split() == [
            "idle",
            "idle",
        ] or any(program.poll() is not None for program in started)

    if not wait_until(is_over, timeout_s=START_S, poll_s=0.2) or any(
        program.poll() is not None for program in started
    ):
        said = [
            line
            for log in sorted(folder.glob("*.log"))
            for line in log.read_text(errors="replace").splitlines()[-3:]
        ]
        pytest.skip(f"Slurm does not start on this machine: {' / '.join(said)}")


def _says(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=20, check=False
    ).stdout.strip()
