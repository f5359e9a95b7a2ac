"""Ray's own workers play one session's episodes; part of ``make nightly``. Ray stands in an
environment of its own.

What pickling does without Ray is tests/sdk/test_cloudpickle.py.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from agents.environments import ROOT, build_all
from e2e.loop_server import BASE_MODEL, LoopServer
from e2e.playing import ledger

ATTEMPTS = 4  # as in the program


def test_six_ray_workers_play_the_episodes_of_one_session(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    environment = build_all(["ray"], reuse=True)["ray"]
    if environment.trouble:
        pytest.skip(f"Ray could not be installed: {environment.trouble}")
    done = subprocess.run(
        [str(environment.folder / "bin" / "python"), str(Path(__file__).with_name("ray_program.py"))],
        env={
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "sdk"),
            "BASE_MODEL": BASE_MODEL, "TINKERSCRIPT_BASE_URL": loop_server.url,
            "TINKERSCRIPT_API_KEY": loop_server.api_key,
            "RAY_USAGE_STATS_ENABLED": "0", "NO_PROXY": "127.0.0.1",
        },
        cwd=tmp_path, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    workers = [process for process, _ in told["done"]]
    ended = [episode_id for _, episodes in told["done"] for episode_id, _ in episodes]
    assert len(set(workers)) == 6, "each task ran in a worker of its own"
    assert len(set(ended)) == len(ended) == 6 * ATTEMPTS
    assert "is over already" in told["error"], "an exception comes back as the class that it is"
    assert told["state"] == "ready", "no worker's end stops the session"
    accounting, fates = ledger(loop_server, told["session_id"])
    assert accounting.begun == 6 * ATTEMPTS + 1 and accounting.trained == 6 * ATTEMPTS
    assert {fates[episode_id] for episode_id in ended} == {"trained"}
    print(
        f"{environment.versions}: {len(ended)} episodes of {len(set(workers))} workers, all trained"
    )
