"""The nodes of the job of Slurm that a runtime is, whose commands are asked for them.

A job has one task on each node (console/scheduling/launchers/slurm.py); the runtime is on the
first.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runtime.errors import PlacementImpossible, TrainerFailed
from gpu_runtime.processes.starting import environment_now

COMMAND_S = 20.0
NODES, OWN = "SLURM_JOB_NODELIST", "SLURMD_NODENAME"


@dataclass(frozen=True)
class SlurmNode:
    """A machine of the job: its name and its address (NodeAddr of slurm.conf, or a host name)."""

    name: str
    address: str


def job_nodes(count: int, environ: Mapping[str, str] = os.environ) -> list[SlurmNode]:
    """The ``count`` nodes of this job, the one that this process is on first.

    Raises PlacementImpossible where the job has another number, TrainerFailed while Slurm does not
    say.
    """
    listed, own = environ.get(NODES, ""), environ.get(OWN, "")
    found = {
        node.name: node
        for line in _scontrol("--oneliner", "show", "node", listed).splitlines()
        if (node := _parse(line)) is not None
    }
    if len(found) != count or own not in found:
        raise PlacementImpossible(
            f"nodes={count}, and Slurm gave this job {len(found)}: {', '.join(found) or listed}"
        )
    return [found.pop(own), *found.values()]


def on_nodes(nodes: list[SlurmNode]) -> list[str]:
    """What is put before a command that runs once on each of these, within the job, beside what
    else runs there.
    """
    count, names = len(nodes), ",".join(node.name for node in nodes)
    within = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={names}"]
    if given := os.environ.get("SLURM_CPUS_PER_TASK"):  # srun takes it from its options alone
        within.append(f"--cpus-per-task={given}")
    return ["srun", "--overlap", *within, "--mem=0", "--export=ALL", "--quiet", "--unbuffered"]


def _parse(line: str) -> SlurmNode | None:
    fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
    name = fields.get("NodeName", "")
    return SlurmNode(name, fields.get("NodeAddr") or name) if name else None


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments],
            env=environment_now(),
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrainerFailed(f"scontrol: {error}") from error
    if done.returncode:
        raise TrainerFailed(f"scontrol: {' '.join(done.stderr.split())}")
    return done.stdout
