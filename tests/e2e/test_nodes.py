"""One session on two nodes of a real Slurm, every part real; one of its nodes is lost, and it goes on."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from e2e.loop_server import until, wait_for_line
from openai import OpenAI

from console.object_store import client as object_store
from console.scheduling.processes import wait_until
from gpu_runtime.training.nodes.remote_rank import MODULE
from launching.slurm_cluster import slurm_cluster
from support.ports import free_port
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[2]
GRPO_N, TASKS = 2, ["ab", "cd", "ef"]
END_S, LOST_S = 120, 60


@pytest.fixture(scope="module")
def base_url_and_key(tmp_path_factory: pytest.TempPathFactory, embedded_s3: str) -> Iterator[tuple[str, str, Path]]:
    """``manage.py up`` in front of the cluster, under this machine's name, as runtimes elsewhere would find it."""
    host = socket.gethostname()
    if socket.gethostbyname(host) != "127.0.0.1":
        pytest.skip("this machine's name does not lead to its loopback, on which alone a test serves")
    data, store = tmp_path_factory.mktemp("data"), object_store.store_get()
    model, port = tiny_model_make(tmp_path_factory.mktemp("model")), free_port()
    with slurm_cluster():
        environment = os.environ | {
            "TINKERSCRIPT_DATA": str(data), "TINKERSCRIPT_PORT": str(port), "TINKERSCRIPT_MODELS": f"tiny={model}",
            "TINKERSCRIPT_LAUNCHER": "slurm", "TINKERSCRIPT_RUNTIME_SERVER_URL": f"http://{host}:{port}",
            "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "3", "TINKERSCRIPT_RUNTIME_CPUS": "1",
            "S3_ENDPOINT_URL": embedded_s3, "S3_ACCESS_KEY": store.access_key, "S3_SECRET_KEY": store.secret_key,
            "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
        }  # fmt: skip
        server = subprocess.Popen(
            [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            command = [sys.executable, "manage.py", "create_api_key", "alice@example.com"]
            wait_for_line(server, "ready")
            key = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
            yield f"http://127.0.0.1:{port}", key.strip(), data
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(END_S)
            server.stdout.close()
            assert wait_until(lambda: ranks_elsewhere() == [], timeout_s=END_S), "no rank outlives its session"


def test_a_session_over_two_nodes_loses_one_and_goes_on_from_journal_and_state(base_url_and_key, tmp_path) -> None:
    """What was acknowledged before and after the loss is trained, each episode once."""
    base_url, key, data = base_url_and_key
    remote = TinkerScript(
        base_model="tiny", base_url=base_url, api_key=key, trainer_ranks=2, nodes=2, grpo_n=GRPO_N, tasks_per_batch=1,
        learning_rate=1e-3, max_context_length=256, max_tokens=8, checkpoint_every_steps=1,
    )  # fmt: skip
    for number, task in enumerate(TASKS):
        for attempt in range(GRPO_N):
            episode = remote.begin_episode(task=task)
            with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
                client.chat.completions.create(
                    model=episode.model, messages=[{"role": "user", "content": f"Say {task}."}], max_tokens=8
                )
            remote.end_episode(WorkflowOutput(reward=float(attempt)), episode=episode)
        if number == 1:
            node_lose(remote)
    tuned = remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances and accounting.trained == accounting.begun == GRPO_N * len(TASKS)
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2, 3]
    # A rank that was killed is started again in its runtime; what Slurm reports otherwise ends the runtime by name.
    phases = [event.data["phase"] for event in remote.events(kinds=["state"])]
    faults = [event.data for event in remote.events(kinds=["event"]) if event.data["name"] == "runtime_fault"]
    if "starting the trainer again" not in phases:
        assert [fault["code"] for fault in faults] == ["trainer_failed"]
    assert all("trainer rank 1" in fault["cause"] for fault in faults), "the rank that was lost, not what others say"
    assert (Path(tuned.path) / "model.safetensors").exists()
    remote.close()


def node_lose(remote: TinkerScript) -> None:
    """End at once all that the session has on the other node, and wait until it is noticed."""
    (rank,) = ranks_elsewhere()
    for process in (rank.parent(), rank):  # Slurm's own process for it first, which could tell
        process.kill()

    def moved() -> bool:
        return any(event.data["from"] == "ready" for event in remote.events(kinds=["state"]))

    until(moved, "the loss of the node was noticed", timeout_s=LOST_S)


def ranks_elsewhere() -> list[psutil.Process]:
    """The ranks of sessions of this cluster that are not on the runtime's node."""
    named = [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [])[-1:] == [MODULE]]
    ranks = [each for each in named if Path(each.info["cmdline"][0]).name != "srun"]
    return [rank for rank in ranks if rank.environ().get("SLURM_CONF") == os.environ.get("SLURM_CONF")]
