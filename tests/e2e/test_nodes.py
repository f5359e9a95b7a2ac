"""One session on two nodes, every part real; one of its nodes is lost, and it goes on.

Ray is a real cluster of three nodes, whose head takes no work. Slurm is a real one of two nodes.
Kubernetes is the fake of tests/launching, whose pods are processes that run what an image would;
and, where TESTS_KUBERNETES_BIN names one with Indexed Jobs, a real one of three nodes ("cluster").
"""

import os
import re
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from e2e.loop_server import until, wait_for_line
from openai import OpenAI

from console.object_store import client as object_store
from console.scheduling.processes import wait_until
from gpu_runtime.cluster.pods import PODS
from launching.fake_kubernetes import FakeKubernetes
from launching.kubernetes_network import GATEWAY
from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.ray_nodes import OTHER, PYTHON, dashboard_lists, ray_nodes
from launching.relay import Relay
from launching.slurm_cluster import slurm_cluster
from support import migrated_database
from support.ports import free_port
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.wire.sessions import SessionState

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]

NIGHTLY = pytest.mark.nightly
ROOT = Path(__file__).resolve().parents[2]
GRPO_N, TASKS = 2, ["ab", "cd", "ef"]
END_S, LOST_S, AGAIN_S = 120, 60, 300
NEW_RANKS = "starting the trainer again"
THIRD, NEXT = "127.0.0.4", "127.0.0.5"
JOINS = {"ray.scripts.scripts", "start", "--block"}
LOST = re.compile(r"node \S+ is lost|lost with node")
CODE = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}"}


class Served:
    """``manage.py up`` in front of a cluster. ``node_lose`` ends at once all that the session has
    on the other node.
    """

    cluster: NodesCluster  # where it is a real Kubernetes

    def __init__(self, url: str, key: str, node_lose: Callable[[], None]) -> None:
        self.url, self.key, self.node_lose = url, key, node_lose


@contextmanager
def by_own_name(port: int) -> Iterator[str]:
    """This machine's."""
    host = socket.gethostname()
    if socket.gethostbyname(host) != "127.0.0.1":
        pytest.skip(
            "this machine's name does not lead to its loopback, on which alone a test serves"
        )
    yield f"http://{host}:{port}"


@contextmanager
def by_relay(port: int) -> Iterator[str]:
    """The network's of the pods."""
    relay = Relay(("127.0.0.1", port))
    try:
        yield relay.listen(GATEWAY)
    finally:
        relay.close()


@contextmanager
def served(
    folder: Path,
    store_url: str,
    cluster: dict[str, str],
    node_lose: Callable[[], None],
    command: list[str],
    address: Callable[[int], AbstractContextManager[str]] = by_own_name,
) -> Iterator[Served]:
    """Over ``folder``/data. ``command`` is put before the server's own; ``address`` is where
    runtimes find it.
    """
    if not Path(PYTHON).exists():
        pytest.skip("Ray is not installed: tests/environments/build.py ray-dashboard")
    model, store, port = folder / "data" / "models" / "tiny", object_store.store_get(), free_port()
    if not model.exists():
        tiny_model_make(model)
        migrated_database.for_server(folder / "data")
    with address(port) as url:
        # what joins a cluster of Ray is for its nodes: the server has its own settings for that
        without = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment = without | CODE | {
            "TINKERSCRIPT_DATA": str(folder / "data"), "TINKERSCRIPT_PORT": str(port),
            "TINKERSCRIPT_MODELS": f"tiny={model}", "TINKERSCRIPT_RUNTIME_SERVER_URL": url,
            "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "4", "TINKERSCRIPT_RUNTIME_CPUS": "1",
            "S3_ENDPOINT_URL": store_url, "S3_ACCESS_KEY": store.access_key, "S3_SECRET_KEY": store.secret_key,
            "DJANGO_SETTINGS_MODULE": "console.settings",
        } | cluster  # fmt: skip
        manage = [*command, PYTHON, "manage.py"]
        server = subprocess.Popen(
            [*manage, "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            make_key = [*manage, "create_api_key", "alice@example.com"]
            wait_for_line(server, "ready")
            key = subprocess.run(
                make_key, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
            ).stdout
            yield Served(f"http://127.0.0.1:{port}", key.strip(), node_lose)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(END_S)
            server.stdout.close()
            assert wait_until(lambda: nodes_elsewhere() == [], timeout_s=END_S), (
                "no node outlives its session"
            )


@pytest.fixture
def on_ray(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    port, token = free_port(), secrets.token_hex(32)
    (tmp_path / "ray-token").write_text(token)
    (tmp_path / "ray-token").chmod(0o600)
    url = f"http://127.0.0.1:{port}"
    variables = {
        "TINKERSCRIPT_LAUNCHER": "ray",
        "TINKERSCRIPT_RAY_ADDRESS": url,
        "TINKERSCRIPT_RAY_TOKEN_FILE": str(tmp_path / "ray-token"),
    }
    with ray_nodes(token, port, (OTHER, THIRD), head_takes_work=False) as cluster:
        assert wait_until(lambda: dashboard_lists(url, token, 3), timeout_s=END_S, poll_s=0.5)

        def node_lose() -> None:
            (lost,) = [node for node in (0, 1) if not has_runtime(cluster.of_other(node))]
            cluster.lose(node=lost)
            cluster.node_add(NEXT)

        with served(tmp_path, embedded_s3, variables, node_lose, []) as server:
            yield server


def has_runtime(processes: list[psutil.Process]) -> bool:
    return any(process.cmdline()[1:3] == ["-m", "gpu_runtime"] for process in processes)


@pytest.fixture
def on_slurm(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    def node_lose() -> None:
        (node,) = nodes_elsewhere()
        # Slurm's own process for it first, which could tell
        family_kill(node.parent())

    with (
        slurm_cluster(),
        served(tmp_path, embedded_s3, {"TINKERSCRIPT_LAUNCHER": "slurm"}, node_lose, []) as server,
    ):
        yield server


@pytest.fixture
def on_kubernetes(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    if os.geteuid() != 0:
        pytest.skip("pods with a hosts file of their own are started by root alone")
    cluster = FakeKubernetes([PYTHON, "-m", "gpu_runtime"], CODE)
    variables = {
        "TINKERSCRIPT_LAUNCHER": "kubernetes", "TINKERSCRIPT_RUNTIME_IMAGE": "stub:1",
        "TINKERSCRIPT_KUBERNETES": "namespace=tests,claim=data",
        "KUBECONFIG": str(cluster.kubeconfig_write(tmp_path / "kubeconfig")),
    }  # fmt: skip

    def node_lose() -> None:
        (node,) = nodes_elsewhere()
        family_kill(node.parent())

    try:
        with served(tmp_path, embedded_s3, variables, node_lose, cluster.enter([])) as server:
            yield server
    finally:
        cluster.close()


@contextmanager
def served_on_cluster(
    folder: Path, embedded_s3: str, variables: dict[str, str], *, nodes: int = 3, spare: int = 0
) -> Iterator[Served]:
    """In front of a real Kubernetes. Models are in ``folder``/data/models already."""
    store = urlsplit(embedded_s3)
    relay = Relay((store.hostname, store.port))
    try:
        with nodes_cluster(nodes, folder / "data", spare=spare) as cluster:

            def node_lose() -> None:
                cluster.node_of(cluster.pods()[1]).lose()

            own = cluster.settings() | {"HOME": str(folder / "data")} | variables
            with served(
                folder, relay.listen(GATEWAY), own, node_lose, cluster.enter, by_relay
            ) as server:
                server.cluster = cluster
                yield server
    finally:
        relay.close()


@pytest.fixture
def on_cluster(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    # before the data are given to the runtimes' user
    tiny_model_make(tmp_path / "data" / "models" / "tiny")
    with served_on_cluster(tmp_path, embedded_s3, {}) as server:
        yield server


@pytest.mark.parametrize(
    "launcher",
    [
        "ray",
        *(pytest.param(each, marks=NIGHTLY) for each in ("slurm", "kubernetes", "cluster")),
    ],
)
def test_a_session_over_two_nodes_loses_one_and_goes_on_from_journal_and_state(
    launcher: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """What was acknowledged before and after the loss is trained, each episode once."""
    server: Served = request.getfixturevalue(f"on_{launcher}")
    remote = TinkerScript(
        base_model="tiny", base_url=server.url, api_key=server.key, trainer_ranks=2, nodes=2, grpo_n=GRPO_N,
        tasks_per_batch=1, learning_rate=1e-3, max_context_length=256, max_tokens=8, checkpoint_every_steps=1,
    )  # fmt: skip
    for number, task in enumerate(TASKS):
        play(remote, task)
        if number == 1:
            server.node_lose()
            ready_again(remote)
    tuned = remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances and accounting.trained == accounting.begun == GRPO_N * len(TASKS)
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2, 3]
    faults = [
        event.data
        for event in remote.events(kinds=["event"])
        if event.data["name"] == "runtime_fault"
    ]
    said = [LOST.search(fault["cause"]) for fault in faults]
    assert all(said), f"what was lost, not what others say: {faults}"
    # of a pod a fake one's controller may end the runtime first
    assert faults or launcher == "kubernetes"
    assert (Path(tuned.path) / "model.safetensors").exists()
    remote.close()


def ready_again(remote: TinkerScript, lost_s: float = LOST_S, again_s: float = AGAIN_S) -> None:
    """Return when the session has noticed a loss, within ``lost_s``, and is ready after it,
    ``again_s`` later.
    """
    until(lambda: has_noticed(remote), "the loss was noticed", timeout_s=lost_s)
    until(
        lambda: remote.status().state == SessionState.READY, "it is ready again", timeout_s=again_s
    )


def has_noticed(remote: TinkerScript) -> bool:
    """Whether the session was ever not ready any more, or its runtime began with new ranks.

    From ready to ready is each thing that it does meanwhile, from the load of the trainer on.
    """
    states = [event.data for event in remote.events(kinds=["state"])]
    left = any(state["from"] == "ready" and state["to"] != "ready" for state in states)
    return left or any(state["phase"] == NEW_RANKS for state in states)


def play(remote: TinkerScript, task: str) -> None:
    """A group of episodes."""
    for attempt in range(GRPO_N):
        episode = remote.begin_episode(task=task)
        with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            client.chat.completions.create(
                model=episode.model,
                messages=[{"role": "user", "content": f"Say {task}."}],
                max_tokens=8,
            )
        remote.end_episode(WorkflowOutput(reward=float(attempt)), episode=episode)


def nodes_elsewhere() -> list[psutil.Process]:
    """Ray's nodes of sessions of this cluster that are not on the runtime's node."""
    joined = [
        each
        for each in psutil.process_iter(["cmdline"])
        if set(each.info["cmdline"] or []) >= JOINS and each.info["cmdline"][0] != "srun"
    ]
    others = [each for each in joined if not any("--head" in word for word in each.cmdline())]
    return [node for node in others if is_ours(node.environ())]


def is_ours(environ: dict[str, str]) -> bool:
    """Of a pod, or of this cluster of Slurm."""
    if PODS in environ:
        return True
    return environ.get("SLURM_CONF", "") == os.environ.get("SLURM_CONF", "none")


def family_kill(process: psutil.Process) -> None:
    """With all that runs on that node, at once."""
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            each.kill()
