"""Runtimes as Slurm jobs, one each, found again by their names. A job of several nodes has the
runtime on its first.

The folders of sessions (TINKERSCRIPT_DATA) and this checkout with its environment must be on a file
system that the nodes share. Slurm's own commands are spoken to; they find the cluster as for any
user (SLURM_CONF or its default).
"""

import math
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.scheduling.launchers.log_file import LOG, log_tail
from console.scheduling.launchers.options import slurm_notice_s
from console.scheduling.launchers.process import OOM_SCORE_ADJ, code_path
from console.scheduling.launchers.protocol import (
    Handle,
    Launcher,
    LauncherUnavailable,
    Resources,
    RuntimeStatus,
    amounts_environment,
    launch_owner,
)
from console.scheduling.launchers.snapshot import Snapshot
from console.scheduling.processes import wait_until

COMMAND_TIMEOUT_S = 10.0
END_WAIT_S = 6.0  # slurmd looks every few seconds whether what it killed is gone
# Of the notice that Slurm gives before it ends a job, for the runtime's processes, once what they
# have is stored.
END_S = 10
POLL_S = 0.2
# Every state of squeue(1) in which the job has ended; in all others it runs or will.
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip
NO_NODE = {"", "N/A", "n/a", "(null)"}
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
FIELDS = "JobID:20|,State:24|,exit_code:12|,Name:80|,Reason:120|,BatchHost:80|"
# a runtime takes one that is free on its node; those below belong to the node
PORTS = range(1024, 65_536)


@dataclass(frozen=True)
class Job:
    """A line of squeue. ``status`` is what wait(2) would say."""

    id: str
    state: str
    status: int
    launch: str
    reason: str
    node: str  # empty while it has none

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED or self.is_held

    @property
    def is_held(self) -> bool:
        """Slurm holds a job whose launch failed (its controller or node was lost): it would wait
        for ever.
        """
        return self.state in WAITING and "held" in self.reason.lower()


class SlurmLauncher(Launcher):
    """One job per runtime, of one task on each node that its handle says.

    ``options`` go to sbatch as they are: partition, account, quality of service.
    """

    name = "slurm"

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "gpu_runtime"),
        *,
        options: Sequence[str] = (),
        resources: Resources,
    ) -> None:
        self._command = list(command)
        self._options = list(options)
        self._notice_s = slurm_notice_s(options)
        self._resources = resources
        self._seen = Snapshot(_jobs_list)

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        self._seen.forget()
        self.others_end(handle)
        job = self._seen.find(handle["launch"])
        if job is not None:
            return handle | {"job": job.id}
        Path(handle["folder"]).mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = self._submit(handle, environment)
        self._seen.forget()
        return handle | {"job": identity}

    def others_end(self, handle: Handle) -> None:
        owner = launch_owner(handle["launch"])
        for other in _jobs_list().values():
            is_ours = launch_owner(other.launch) == owner and other.launch != handle["launch"]
            if is_ours and (other.is_held or not other.has_ended):
                _end(other)

    def inspect(self, handle: Handle) -> RuntimeStatus:
        job = self._seen.find(handle["launch"])
        if job is None:
            return RuntimeStatus("gone")
        if job.has_ended:
            if job.is_held:
                return RuntimeStatus("exited", reason=job.reason)
            return RuntimeStatus("exited", os.waitstatus_to_exitcode(job.status), job.state)
        if job.state in WAITING:
            return RuntimeStatus("waiting", reason=f"Slurm: {job.reason}")
        return RuntimeStatus("running")

    def address(self, handle: Handle, *, port: int) -> str:
        job = self._seen.find(handle["launch"])
        if job is None or not job.node or port not in PORTS:
            return ""
        host = _node_address(job.node)
        return f"{host}:{port}" if host else ""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        self._seen.forget()
        job = self._seen.find(handle["launch"])
        if job is None or (job.has_ended and not job.is_held):
            return
        if grace_s > 0 and job.state == "RUNNING":
            # The runtime alone: it ends its engine and ranks in the right order, if it can. By INT,
            # for TERM is Slurm's own notice, after which a runtime takes its time to store what it
            # has.
            _run("scancel", "--batch", "--signal=INT", job.id)
            wait_until(lambda: _is_over(job), timeout_s=grace_s, poll_s=POLL_S)
        _end(job)
        self._seen.forget()

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        return log_tail(Path(handle["folder"]) / LOG, lines=lines)

    def _submit(self, handle: Handle, environment: Mapping[str, str]) -> str:
        own = {
            "PYTHONPATH": code_path(),
            "PYTHONUNBUFFERED": "1",
            "TINKERSCRIPT_RUNTIME_LISTEN": "0.0.0.0:0",
            "TINKERSCRIPT_RUNTIME_NOTICE_S": str(max(0, self._notice_s - END_S)),
            **amounts_environment(handle["gpus"], self._resources.cpus),
        }
        passed = own | dict(environment)
        kept = [name for name in ("PATH", "HOME", "LANG") if name in os.environ]
        folder, nodes = handle["folder"], handle.get("nodes", 1)
        # The values travel in sbatch's environment: on its command line everyone sees them.
        arguments = [
            # before a preemption only where the cluster says so
            f"--signal=B:TERM@{self._notice_s}",
            *self._options,  # first: what follows is stronger
            "--parsable",
            f"--job-name={handle['launch']}",
            f"--chdir={folder}",
            f"--output={_no_patterns(folder)}/{LOG}",
            "--open-mode=append",
            f"--export={','.join([*kept, *passed])}",
            "--no-requeue",  # restarting is the reconciler's, with a new lease
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--ntasks-per-node=1",
            *self._amounts(handle["gpus"]),
        ]
        script = (
            f"#!/bin/sh\necho {OOM_SCORE_ADJ} 2>/dev/null >/proc/self/oom_score_adj\nulimit -c 0\n"
        )
        script += f"exec {shlex.join(self._command)}\n"
        return _run(
            "sbatch", *arguments, stdin=script, environment=passed, refusals=True
        ).partition(";")[0]

    def _amounts(self, gpus: int) -> list[str]:
        amounts = []
        if self._resources.cpus is not None:
            amounts.append(f"--cpus-per-task={self._resources.cpus}")
        if self._resources.memory_bytes is not None:
            amounts.append(f"--mem={math.ceil(self._resources.memory_bytes / (1 << 20))}M")
        if gpus:
            amounts.append(f"--gpus-per-node={gpus}")
        return amounts


def _jobs_list(which: str = "--me") -> dict[str, Job]:
    """Jobs by launch. The controller forgets an ended one after its MinJobAge."""
    listed = _run("squeue", "--noheader", "--states=all", which, f"--Format={FIELDS}")
    jobs = [_parse(line) for line in listed.splitlines() if line]
    # Of two with one name, the one that lives.
    return {job.launch: job for job in sorted(jobs, key=lambda job: not job.has_ended)}


def _is_over(job: Job) -> bool:
    return all(seen.has_ended for seen in _jobs_list(f"--jobs={job.id}").values())


def _end(job: Job) -> None:
    if job.state not in WAITING:
        # Without Slurm's own KillWait: the grace, if there was one, is over.
        _run("scancel", "--full", "--signal=KILL", job.id)
    _run("scancel", job.id)
    wait_until(lambda: _is_over(job), timeout_s=END_WAIT_S, poll_s=POLL_S)


def _parse(line: str) -> Job:
    identity, state, code, launch, reason, node = (part.strip() for part in line.split("|")[:6])
    node = "" if node in NO_NODE else node
    return Job(id=identity, state=state, status=int(code), launch=launch, reason=reason, node=node)


def _node_address(node: str) -> str:
    """Where Slurm itself reaches a node: NodeAddr, which is its name unless slurm.conf says
    otherwise.
    """
    said = _run("scontrol", "--oneliner", "show", "node", node)
    return next(
        (word.partition("=")[2] for word in said.split() if word.startswith("NodeAddr=")), ""
    )


def _no_patterns(folder: str) -> str:
    """sbatch replaces %j and its like in file names; a doubled per cent sign is one."""
    return folder.replace("%", "%%")


def _run(
    *command: str,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    refusals: bool = False,
) -> str:
    """What a Slurm command prints. Raises OSError when sbatch refuses the job, LauncherUnavailable
    otherwise.
    """
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env=os.environ | dict(environment or {}),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LauncherUnavailable(f"{command[0]}: {error}") from error
    said = " ".join(done.stderr.split())
    if done.returncode == 0:
        return done.stdout.strip()
    if refusals and "Unable to contact" not in said:
        raise OSError(f"Slurm refuses the job: {said}")
    if "Invalid job id" in said:
        return ""  # it ended and was forgotten meanwhile
    raise LauncherUnavailable(f"{command[0]}: {said}")
