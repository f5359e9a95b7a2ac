"""The nodes of the job that a runtime is, of Slurm or Kubernetes, and how its processes reach one
another.

The runtime is on the first one. A job of Slurm has one task on each node
(console/scheduling/launchers/slurm.py), and Slurm's own commands are asked for the others; one of
Kubernetes has a pod on each, whose names its launcher says.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runtime.errors import PlacementImpossible, TrainerFailed
from gpu_runtime.processes.several_threads import environment_now

from .pods import pod_name, pods

COMMAND_S = 20.0
NODES, OWN = "SLURM_JOB_NODELIST", "SLURMD_NODENAME"


@dataclass(frozen=True)
class Node:
    """A machine of the job: its name, or that of its pod, and its address (NodeAddr of slurm.conf,
    or a host name).
    """

    name: str
    address: str


def job_nodes(count: int, environ: Mapping[str, str] = os.environ) -> list[Node]:
    """The ``count`` nodes of this job, the one that this process is on first.

    Raises PlacementImpossible where it is no job over so many, TrainerFailed while Slurm does not
    say.
    """
    if there := [Node(pod_name(address), address) for address in pods(environ)]:
        if len(there) != count:
            raise PlacementImpossible(
                f"nodes={count}, and this Job of Kubernetes has {len(there)} pods"
            )
        return there
    listed, own = environ.get(NODES, ""), environ.get(OWN, "")
    if not listed or not own:
        raise PlacementImpossible(
            f"nodes={count} needs a job of Slurm over {count} nodes, or one of Kubernetes; this "
            "runtime is in none"
        )
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


def _parse(line: str) -> Node | None:
    fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
    name = fields.get("NodeName", "")
    return Node(name, fields.get("NodeAddr") or name) if name else None


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
