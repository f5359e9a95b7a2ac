"""A runtime that is a job over two nodes of a real Slurm: it starts Ray's head, `srun` the other
node, and ranks meet on both.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.scheduling.processes import wait_until
from launching.ray_nodes import PYTHON
from launching.slurm_cluster import slurm_cluster
from support import node_ranks
from support.tiny_model import tiny_model_make

RUN_S = 240
GANG = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=2500M"]
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason="Ray is not installed"),
]


@pytest.fixture
def cluster() -> Iterator[None]:
    with slurm_cluster():
        yield


def test_ranks_meet_on_both_nodes_of_a_job_and_no_node_outlives_it(
    cluster: None, tmp_path: Path
) -> None:
    tiny_model_make(tmp_path / "model")
    config = {"trainer_ranks": 2, "nodes": 2}
    (tmp_path / "config.json").write_text(json.dumps({"config": config, "meets": True}))
    script = f"#!/bin/sh\nexec {PYTHON} {node_ranks.__file__} {tmp_path}\n"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TINKERSCRIPT_RUNTIME_CPUS": "1",
    }
    log = tmp_path / "log"
    command = ["sbatch", *GANG, "--no-requeue", f"--output={log}"]
    subprocess.run(
        command, input=script, text=True, check=True, env=environment, stdout=subprocess.DEVNULL,
        timeout=20,
    )  # fmt: skip
    found = tmp_path / "found.json"
    assert wait_until(found.exists, timeout_s=RUN_S, poll_s=0.2), log.read_text()[-4000:]
    assert "fault" not in json.loads(found.read_text()), found.read_text()
    assert wait_until(are_idle, timeout_s=60, poll_s=0.5)


def are_idle() -> bool:
    """Both nodes."""
    command = ["sinfo", "--noheader", "--Node", "--format=%T"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    return told.split() == ["idle", "idle"]
