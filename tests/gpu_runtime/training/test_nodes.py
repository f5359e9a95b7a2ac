"""Ranks of one trainer on the two nodes of a real Slurm: the same steps, and a named end of what is
lost.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from console.scheduling.processes import wait_until
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.processes.network import interface_toward
from gpu_runtime.training.nodes.job import job_nodes
from gpu_runtime.training.nodes.line import versions, versions_differ
from gpu_runtime.training.nodes.remote_rank import MODULE
from launching.slurm_cluster import slurm_cluster
from support import node_ranks
from support.lost_ranks import MINUTE_S, found_within_a_minute
from support.tiny_model import tiny_model_make

RUN_S = 480
TWO: dict[str, object] = {"trainer_ranks": 2, "zero_stage": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with slurm_cluster():
        yield


class Job:
    """The trainer of support/node_ranks.py as the batch step of a job over two nodes, or as a
    process beside us.
    """

    def __init__(self, folder: Path, config: dict[str, object], **wanted: object) -> None:
        self.folder = folder
        if not (folder / "model").exists():
            tiny_model_make(folder / "model")
        usual = {"learning_rate": 1e-3, "micro_batch_tokens": 64}
        (folder / "config.json").write_text(json.dumps({"config": usual | config} | wanted))

    def submit(self) -> "Job":
        script = f"#!/bin/sh\nexec {sys.executable} {node_ranks.__file__} {self.folder}\n"
        gang = [
            "--nodes=2",
            "--ntasks=2",
            "--ntasks-per-node=1",
            "--cpus-per-task=1",
            "--mem=1500M",
            "--no-requeue",
        ]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TINKERSCRIPT_RUNTIME_CPUS": "1",
        }
        subprocess.run(
            ["sbatch", *gang, f"--output={self.folder}/log"], input=script, text=True, check=True, env=environment,
            stdout=subprocess.DEVNULL, timeout=20,
        )  # fmt: skip
        return self

    def found(self, within_s: float = RUN_S) -> dict:
        assert wait_until((self.folder / "found.json").exists, timeout_s=within_s, poll_s=0.2), (
            self.log()
        )
        return json.loads((self.folder / "found.json").read_text())

    def log(self) -> str:
        said = self.folder / "log"
        return (
            said.read_text(errors="replace")[-3000:] if said.exists() else "the job did not begin"
        )

    def remote(self) -> psutil.Process:
        """The rank on the other node, once they have met."""
        assert wait_until((self.folder / "met").exists, timeout_s=RUN_S, poll_s=0.2), self.log()
        (rank,) = [it for it in psutil.process_iter(["cmdline"]) if is_remote(it)]
        return rank

    def weights(self) -> dict[str, torch.Tensor]:
        return load_file(self.folder / "exported" / "model.safetensors")


def is_remote(process: psutil.Process) -> bool:
    """Of this cluster: another run of these tests may be on the machine. ``srun`` has the same last
    words.
    """
    command = process.info["cmdline"] or []
    if command[-1:] != [MODULE] or Path(command[0]).name == "srun":
        return False
    return process.environ().get("SLURM_CONF") == os.environ["SLURM_CONF"]


def is_daemon(process: psutil.Process, node: str) -> bool:
    """The slurmd of a node of this cluster."""
    command = process.info["cmdline"] or []
    return "slurmd" in command[0:1] and node in command and os.environ["SLURM_CONF"] in command


def are_idle() -> bool:
    """Both nodes."""
    command = ["sinfo", "--noheader", "--Node", "--format=%T"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.split() == [
        "idle",
        "idle",
    ]


def beside(folder: Path, config: dict[str, object], **wanted: object) -> Job:
    """The same on this machine alone."""
    job = Job(folder, config, **wanted)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TINKERSCRIPT_RUNTIME_CPUS": "2",
    }
    command = [sys.executable, node_ranks.__file__, str(folder)]
    with (folder / "log").open("wb") as log:
        subprocess.run(command, check=True, env=environment, stdout=log, stderr=log, timeout=RUN_S)
    return job


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return make


@pytest.mark.engine
@pytest.mark.timeout(1000)
def test_ranks_on_two_nodes_take_the_steps_of_two_on_one(cluster, folder) -> None:
    """To the bit: the same ranks sum the same parts in the same order."""
    there = Job(folder("there"), TWO | {"nodes": 2}, steps=[1, 2]).submit()
    here = beside(folder("here"), TWO, steps=[1, 2])
    assert there.found()["metrics"] == here.found()["metrics"]
    unbroken = here.weights()
    assert all(torch.equal(tensor, unbroken[name]) for name, tensor in there.weights().items())


@pytest.mark.engine
@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_two_nodes_go_on_from_a_state_of_one_and_one_from_theirs(cluster, folder) -> None:
    """The parts that the ranks saved are found in the folder that the nodes share."""
    there = Job(folder("there"), TWO | {"nodes": 2}, steps=[1, 2]).submit()
    here = beside(folder("here"), TWO, steps=[1, 2])
    there.found()
    out = Job(
        folder("out"), TWO | {"nodes": 2}, state=str(here.folder / "state-1"), steps=[2]
    ).submit()
    back = beside(folder("back"), TWO, state=str(there.folder / "state-1"), steps=[2])
    out.found()
    unbroken = here.weights()
    for run in (there, back, out):
        assert all(torch.equal(tensor, unbroken[name]) for name, tensor in run.weights().items())


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGSTOP], ids=["it is killed", "its node falls silent"]
)
def test_a_rank_that_is_lost_is_a_named_failure_within_a_minute(cluster, folder, how: int) -> None:
    """A node that is stopped with what runs on it sends nothing and closes nothing, like one
    without power.
    """
    job = Job(folder("job"), {"trainer_ranks": 2, "nodes": 2}).submit()
    rank = job.remote()
    lost = [rank] if how == signal.SIGKILL else [*rank.parents()[:1], rank]  # its slurmstepd
    found = found_within_a_minute(lost, how, job.found)
    if how == signal.SIGSTOP:
        assert found["fault"] == "TrainerFailed" and "node n2 is not reached" in found["says"]
    else:
        assert found["fault"] == "TrainerKilled" and "trainer rank 1 was killed" in found["says"]


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_node_that_cannot_be_reached_at_the_start_is_a_named_failure(cluster, folder) -> None:
    (daemon,) = [it for it in psutil.process_iter(["cmdline"]) if is_daemon(it, "n2")]
    assert wait_until(are_idle, timeout_s=RUN_S, poll_s=0.5), "the job of the test before has ended"
    daemon.suspend()
    try:
        found = Job(folder("job"), {"trainer_ranks": 2, "nodes": 2}, start_s=5).submit().found()
    finally:
        daemon.resume()
    assert found["fault"] == "TrainerFailed" and "node n2 is not reached" in found["says"]
    assert found["seconds"] < MINUTE_S


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["model", "version"])
def test_a_node_that_has_something_else_is_refused_by_name_before_it_trains(
    cluster, folder, what: str
) -> None:
    """Both nodes are one machine here, so that the rank of one is given another folder, or is taken
    for another.
    """
    other = tiny_model_make(folder("other"), seed=1)
    wanted = {"other_model": str(other)} if what == "model" else {"torch": "1.0"}
    found = Job(folder("job"), {"trainer_ranks": 2, "nodes": 2}, **wanted).submit().found()
    assert found["fault"] == "NodesDiffer" and found["seconds"] < MINUTE_S
    says = "on n2 its files are others than on n1" if what == "model" else "node n1 has torch 1.0"
    assert says in found["says"]


def test_versions_that_differ_are_named_with_both_nodes() -> None:
    ours = versions()
    # those of the page, and the engine's
    named = {"Python", "torch", "deepspeed", "transformers", "tinkerscript", "vLLM"}
    assert named <= ours.keys()
    assert versions_differ("n2", dict(ours), "n1", ours) == ""
    said = versions_differ("n2", ours | {"torch": "1.0"}, "n1", ours)
    assert said == f"node n2 has torch 1.0; node n1 has torch {ours['torch']}"
    assert "tinkerscript none" in versions_differ("n2", {}, "n1", ours)


def test_nodes_outside_of_a_job_are_refused() -> None:
    with pytest.raises(PlacementImpossible, match="needs a job of Slurm over 2 nodes"):
        job_nodes(2, {})


@pytest.mark.system
def test_a_job_over_another_number_of_nodes_is_refused(cluster) -> None:
    inside = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
    assert [node.name for node in job_nodes(2, inside)] == ["n2", "n1"], "its own first"
    with pytest.raises(PlacementImpossible, match="nodes=3, and Slurm gave this job 2: n1, n2"):
        job_nodes(3, inside)


@pytest.mark.system
def test_ranks_meet_over_the_interface_that_leads_to_the_others() -> None:
    assert interface_toward("127.0.0.1") == "lo"
