"""What the contract of launchers is tested on: each backend has a launcher and something real
behind it.

A runtime is a line of shell here, which it finds in PROGRAM; it starts in its session's folder.
"""

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config

from console.scheduling.launchers.docker import DockerLauncher
from console.scheduling.launchers.kubernetes import manifests
from console.scheduling.launchers.kubernetes.launcher import KubernetesLauncher
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.launchers.protocol import Handle, Launcher, Resources
from console.scheduling.launchers.ray import RayLauncher
from console.scheduling.launchers.slurm import SlurmLauncher
from console.scheduling.processes import wait_until
from launching.dockerd import docker_engine, stub_image
from launching.fake_kubernetes import FakeKubernetes
from launching.kubernetes_images import RUNTIME
from launching.kubernetes_node import container_kill
from launching.ray_nodes import dashboard_lists, ray_nodes
from launching.real_kubernetes import CLAIM, namespace_make, own_kubernetes, volume_make
from launching.slurm_cluster import slurm_cluster
from support.ports import free_port

SHELL = ["/bin/sh", "-c", 'eval "$PROGRAM"']
# Two minutes at most: what a test run that was killed leaves behind ends by itself.
WAIT = "n=0; while [ $((n+=1)) -lt 1200 ]; do sleep 0.1; done"
SMALL = Resources(memory_bytes=256 << 20, cpus=1)
WAIT_S = 30


@dataclass
class Backend:
    """``launcher(**changes)`` is a new launcher, with other arguments than usual where ``changes``
    has them.

    ``kill`` ends a runtime without its launcher. ``client`` talks to the engine itself, if there is
    a client for it. ``home`` is where its folders have to be, if not just anywhere; runtimes have a
    user of their own there.
    """

    name: str
    launcher: Callable[..., Launcher]
    kill: Callable[[Handle], None]
    client: Any = None
    folder: Path = Path()
    home: Path | None = None
    started: list[tuple[Launcher, Handle]] = field(default_factory=list)

    def new_handle(
        self,
        launcher: Launcher,
        session_id: str | None = None,
        instance_id: str = "1" * 8,
        **devices: Any,
    ) -> Handle:
        session_id = session_id or f"ses_{secrets.token_hex(8)}"
        if self.home is not None:
            (self.folder / session_id).mkdir(parents=True, exist_ok=True)
            os.chown(self.folder / session_id, manifests.USER, manifests.USER)
        folder = self.folder / session_id
        return launcher.new_handle(
            session_id=session_id, instance_id=instance_id, folder=folder, **devices
        )

    def start(
        self, program: str, launcher: Launcher | None = None, fresh: Handle | None = None
    ) -> tuple[Launcher, Handle]:
        """A runtime that has written its first line."""
        launcher = launcher or self.launcher()
        fresh = fresh or self.new_handle(launcher)
        self.started.append((launcher, fresh))
        handle = launcher.start(
            fresh, environment={"PROGRAM": program, "TINKERSCRIPT_LEASE": "tml-ls-x"}
        )
        assert wait_until(lambda: launcher.logs(handle, lines=1) != [], timeout_s=WAIT_S)
        return launcher, handle

    def clear(self) -> None:
        for launcher, handle in self.started:
            launcher.stop(handle, grace_s=0)
        self.started.clear()


@contextmanager
def process_backend() -> Iterator[Backend]:
    yield Backend(
        "process",
        lambda: ProcessLauncher(SHELL),
        lambda handle: os.kill(handle["pid"], signal.SIGKILL),
    )


@contextmanager
def docker_backend() -> Iterator[Backend]:
    with docker_engine() as client, stub_image(client) as image:
        network = f"tinkerscript-tests-{secrets.token_hex(4)}"

        def launcher(**changes: Any) -> DockerLauncher:
            usual = {"client": client, "image": image, "network": network, "resources": SMALL}
            return DockerLauncher(**(usual | changes))

        try:
            yield Backend(
                "docker",
                launcher,
                lambda handle: client.containers.get(handle["launch"]).kill(),
                client,
            )
        finally:
            for made in client.networks.list(names=[network]):
                made.remove()


@contextmanager
def slurm_backend() -> Iterator[Backend]:
    def kill(handle: Handle) -> None:
        subprocess.run(
            ["scancel", "--full", "--signal=KILL", handle["job"]], check=True, timeout=20
        )

    with slurm_cluster():
        yield Backend("slurm", lambda: SlurmLauncher(SHELL, resources=SMALL), kill)


@contextmanager
def ray_backend() -> Iterator[Backend]:
    port, token = free_port(), secrets.token_hex(32)
    url = f"http://127.0.0.1:{port}"

    def launcher(**changes: Any) -> RayLauncher:
        usual = {"token": token, "resources": Resources(), "command": SHELL}
        return RayLauncher(url, **(usual | changes))

    def kill(handle: Handle) -> None:
        for process in psutil.process_iter(["cwd"]):
            if process.info["cwd"] == handle["folder"]:
                process.kill()

    with ray_nodes(token, dashboard=port):
        assert wait_until(lambda: dashboard_lists(url, token, 2), timeout_s=WAIT_S * 2, poll_s=0.5)
        yield Backend("ray", launcher, kill)


@contextmanager
def kubernetes_backend() -> Iterator[Backend]:
    cluster = FakeKubernetes()

    def kill(handle: Handle) -> None:
        (name,) = [
            name for name in cluster.names("pods") if handle["launch"].replace("_", "-") in name
        ]
        os.killpg(cluster.processes[name].pid, signal.SIGKILL)

    try:
        yield Backend("kubernetes", lambda: kubernetes_launcher(cluster.url), kill)
    finally:
        cluster.close()


@contextmanager
def cluster_backend() -> Iterator[Backend]:
    """A real Kubernetes with one node, and the volume that runtimes share with the server."""
    with (
        own_kubernetes(node=True) as kubeconfig,
        kubernetes_config.new_client_from_config(str(kubeconfig)) as api,
        namespace_make(api) as namespace,
        pytest.MonkeyPatch.context() as patch,
    ):
        # A kubelet of 1.20 gives a pod the first time that it is given, which may be by the Job's
        # controller.
        patch.setattr(manifests, "GRACE_S", 2)
        home = kubeconfig.parent / "data"
        for folder in (home, home / "models"):
            folder.mkdir()
            # whatever this process keeps from others: runtimes have a user of their own
            folder.chmod(0o755)
        volume_make(api, namespace, home)
        options = {
            "image": RUNTIME,
            "resources": Resources(memory_bytes=64 << 20),
            "kubernetes_namespace": namespace,
            "kubernetes_claim": CLAIM,
        }

        def kill(handle: Handle) -> None:
            pods = kubernetes_client.CoreV1Api(api).list_namespaced_pod(namespace)
            (pod,) = [
                pod
                for pod in pods.items
                if pod.metadata.labels[manifests.LAUNCH] == handle["launch"]
            ]
            container_kill(
                kubeconfig.parent / "localhost", pod.status.container_statuses[0].container_id
            )

        def launcher(**changes: object) -> KubernetesLauncher:
            return kubernetes_launcher(api, data=home, **(options | changes))

        yield Backend("cluster", launcher, kill, home=home)


def kubernetes_launcher(
    api: kubernetes_client.ApiClient | str, *, data: Path = Path("/data"), **options: object
) -> KubernetesLauncher:
    """A launcher of the official client, or of one for the API at a URL."""
    settings = {
        "name": "kubernetes",
        "image": "stub:1",
        "resources": SMALL,
        "kubernetes_namespace": "tests",
    } | options
    if isinstance(api, str):
        api = kubernetes_client.ApiClient(kubernetes_client.Configuration(host=api))
    return KubernetesLauncher(api, options=LauncherOptions(**settings), data=data)


BACKENDS = {
    "process": process_backend,
    "docker": docker_backend,
    "slurm": slurm_backend,
    "ray": ray_backend,
    "kubernetes": kubernetes_backend,
    "cluster": cluster_backend,
}
