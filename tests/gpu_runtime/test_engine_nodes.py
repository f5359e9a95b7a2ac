"""One engine over the two nodes of a real Slurm: the tokens of one on a node, hand-overs, and what
is lost by name.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from console.scheduling.processes import wait_until
from launching.slurm_cluster import slurm_cluster
from support import node_engine
from support.lost_ranks import MINUTE_S, found_within_a_minute
from support.tiny_model import tiny_model_make

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(900)]
RUN_S, ADDRESS = 480, "127.0.0.1"  # NodeAddr of both nodes
TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with slurm_cluster():
        yield


class Job:
    """support/node_engine.py as the batch step of a job over two nodes, or as a process beside
    us.
    """

    def __init__(self, folder: Path, config: dict[str, object], **wanted: object) -> None:
        self.folder = folder
        folder.mkdir()
        tiny_model_make(folder / "model", heads=(2, 2))
        (folder / "config.json").write_text(json.dumps({"config": config} | wanted))

    def submit(self) -> "Job":
        script = f"#!/bin/sh\nexec {sys.executable} {node_engine.__file__} {self.folder}\n"
        gang = [
            "--nodes=2",
            "--ntasks=2",
            "--ntasks-per-node=1",
            "--cpus-per-task=1",
            "--mem=3000M",
            "--no-requeue",
        ]
        gang += [f"--chdir={self.folder}"]
        subprocess.run(
            ["sbatch", *gang, f"--output={self.folder}/log"], input=script, text=True, check=True, env=environment(),
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
            said.read_text(errors="replace")[-6000:] if said.exists() else "the job did not begin"
        )


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TINKERSCRIPT_RUNTIME_CPUS": "1"}


def beside(folder: Path, config: dict[str, object]) -> dict:
    """The same on this machine alone."""
    job = Job(folder, config)
    with (folder / "log").open("wb") as log:
        command = [sys.executable, node_engine.__file__, str(folder)]
        subprocess.run(
            command, check=True, env=environment(), stdout=log, stderr=log, timeout=RUN_S
        )
    return job.found()


@pytest.mark.parametrize(
    "trains",
    [{}, {"zero_stage": 3}, {"lora_rank": 4}, {"zero_stage": 3, "lora_rank": 4}],
    ids=["whole weights", "gathered of ZeRO 3", "sums with adapters", "gathered and summed"],
)
def test_an_engine_over_two_nodes_samples_as_one_and_takes_the_trainers_weights(
    cluster, tmp_path: Path, trains: dict[str, object]
) -> None:
    """On each node its worker takes the weights from a rank of that node; the rehearsal has
    compared them thrice.
    """
    there = Job(tmp_path / "there", TWO | trains, engine_nodes=2).submit()
    here = beside(tmp_path / "here", {"trainer_ranks": 2} | trains)
    found = there.found()
    assert "fault" not in found, (found, there.log())
    for when in ("before", "after"):
        assert found[when][0] == here[when][0]
        assert found[when][1] == pytest.approx(here[when][1], abs=1e-5)
    assert found["before"][1] != pytest.approx(found["after"][1], abs=1e-2), (
        "these weights are others"
    )
    assert found["trained"] == pytest.approx(found["after"][1], abs=1e-4), (
        "and they are the trainer's"
    )


@pytest.mark.parametrize("when", ["busy", "idle"])
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGSTOP], ids=["it is killed", "its node falls silent"]
)
def test_a_lost_node_ends_the_engine_by_name_within_a_minute(
    cluster, tmp_path: Path, how: int, when: str
) -> None:
    """Also where nothing is asked of the engine; and no process of it is left on either node."""
    job = Job(tmp_path / "job", TWO, engine_nodes=2, lost=when).submit()
    assert wait_until((job.folder / "serves").exists, timeout_s=RUN_S, poll_s=0.2), job.log()
    processes = processes_of(job.folder)
    (part,) = [it for it in processes if it.cmdline()[0] == "VLLM::Worker_TP1"]
    engine = [it for it in processes if it.cmdline()[0].startswith("VLLM::")]
    assert len(engine) == 3, "the core, and on each node a worker"
    assert {
        at.laddr.ip
        for it in engine
        for at in it.net_connections()
        if at.status == psutil.CONN_LISTEN
    } == {ADDRESS}
    lost = [part] if how == signal.SIGKILL else [*part.parents()[:1], part]  # its slurmstepd
    found = found_within_a_minute(lost, how, job.found)
    assert found["fault"] == "EngineDead", found
    says = (
        "node n2 is lost: the engine's part on it was killed"
        if how == signal.SIGKILL
        else "node n2 is not reached"
    )
    assert says in found["says"]
    assert wait_until(lambda: not processes_of(job.folder), timeout_s=MINUTE_S, poll_s=0.5), (
        processes_of(job.folder)
    )
    assert not list(job.folder.glob("tinkerscript-*")), "nor their folders"


def processes_of(folder: Path) -> list[psutil.Process]:
    """All that a job left on either node: they have its folder for their working directory."""
    return [it for it in psutil.process_iter(["cwd"]) if it.info["cwd"] == str(folder)]
