"""Web servers on a real Kubernetes, as many as the calls that their relays carry ask for.

Servers, relay, Prometheus and the autoscaler are real. The metrics API between the last two is by
hand, and asks it what docker/monitoring/adapter.yaml says; so is the discovery of pods, which
Debian's Prometheus has not.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from console.scheduling.launchers.kubernetes.manifests import USER
from console.scheduling.processes import wait_until
from console.server.metrics import RELAY_IN_FLIGHT
from launching.daemons import daemon, ports_find
from launching.kubernetes_images import PRODUCT, ROOT, of_checkout
from launching.manifests import DOCKER, manifests
from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.real_kubernetes import CLAIM
from support.metrics_api import (
    CUSTOM,
    RESOURCE,
    MetricsApi,
    metrics_api_register,
    metrics_api_remove,
    metrics_api_served,
)
from support.tiny_model import tiny_model_make

pytestmark = pytest.mark.timeout(900)
WAIT_S = 180
TOKEN, SECRET_KEY = "a-token-of-prometheus", "a-secret-key-of-a-test-that-is-long-enough"
BASE_MODEL, CALLS_A_SERVER = "SmolLM2-135M-Instruct", 2
# A session in the queue: its calls wait in the relay for its runtime, for two minutes.
PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from console.users.models import Project
from support import factories
from support.asgi_calls import episode_key
from tinkerscript.wire.config import SessionConfig
alice = factories.user_make("alice")
project = Project.objects.get(memberships__user=alice)
print(episode_key(factories.session_make(project, config=SessionConfig(max_context_length=256)).id))
"""


class Scaled:
    """The web servers of a cluster."""

    def __init__(self, cluster: NodesCluster, metrics: MetricsApi, port: int, key: str) -> None:
        self.cluster, self.metrics, self.port = cluster, metrics, port
        self._key = key
        self._calls: list[socket.socket] = []

    def until(self, servers: int) -> None:
        """There are that many and the autoscaler wants no others."""

        def is_so() -> bool:
            status = self.autoscaler().status
            return status.desired_replicas == servers and len(self.cluster.pods()) == servers

        assert wait_until(is_so, timeout_s=WAIT_S, poll_s=0.5), (servers, self.told())

    def autoscaler(self) -> Any:
        return client.AutoscalingV2Api(self.cluster.api).read_namespaced_horizontal_pod_autoscaler(
            "web", self.cluster.namespace
        )

    def condition(self, kind: str) -> Any:
        return next(each for each in self.autoscaler().status.conditions if each.type == kind)

    def calls_a_server(self) -> str:
        """As the autoscaler has last read it."""
        metrics = self.autoscaler().status.current_metrics or []
        return next(
            (each.pods.current.average_value for each in metrics if each.type == "Pods"), ""
        )

    def told(self) -> list[str]:
        """What is known of why there are not as many as there should be."""
        services = client.ApiregistrationV1Api(self.cluster.api).list_api_service().items
        own = [it for it in services if it.spec.service]
        conditions = [
            *(self.autoscaler().status.conditions or []),
            *(c for it in own for c in it.status.conditions),
        ]
        return [f"{it.type} {it.status} {it.reason}: {it.message}" for it in conditions]

    def calls_begin(self, count: int) -> None:
        """That wait for their answers, at the first server that there was."""
        pod = min(self.cluster.pods(), key=lambda each: each.metadata.creation_timestamp)
        body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi."}]}'
        head = f"POST /openai/v1/chat/completions HTTP/1.1\r\nHost: web\r\nAuthorization: Bearer {self._key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        for _ in range(count):
            self._calls.append(socket.create_connection((pod.status.pod_ip, 8000), timeout=20))
            self._calls[-1].sendall(head.encode() + body)

    def calls_end(self) -> None:
        """Their clients go away."""
        while self._calls:
            self._calls.pop().close()


@pytest.fixture
def scaled(tmp_path: Path) -> Iterator[Scaled]:
    if (prometheus := shutil.which("prometheus")) is None:
        pytest.skip("no Prometheus (apt: prometheus)")
    data = tmp_path / "data"
    data.mkdir()
    key = prepared(data)
    with ExitStack() as opened:
        cluster = opened.enter_context(nodes_cluster(1, data))
        (port,) = ports_find(1)
        settings = prometheus_settings(tmp_path)
        opened.enter_context(discovery(cluster, tmp_path / "pods.json"))
        command = [
            prometheus,
            f"--config.file={settings}",
            f"--storage.tsdb.path={tmp_path / 'series'}",
        ]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--query.lookback-delta=10s"]
        opened.enter_context(daemon(command, log=tmp_path / "prometheus.log"))
        metrics = MetricsApi(cluster.api, f"http://127.0.0.1:{port}")
        api_port = opened.enter_context(metrics_api_served(metrics, tmp_path))
        servers = Scaled(cluster, metrics, api_port, key)
        opened.callback(servers.calls_end)
        web_apply(cluster, data)
        yield servers


def prepared(data: Path) -> str:
    """A migrated database with a session that waits; the key of one of its episodes."""
    tiny_model_make(data / "models" / BASE_MODEL)
    environment = os.environ | {
        "TINKERSCRIPT_DATA": str(data), "TINKERSCRIPT_SECRET_KEY": SECRET_KEY,
        "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def prometheus_settings(folder: Path) -> Path:
    """Those of docker/monitoring, over a file of pods."""
    settings = yaml.safe_load((DOCKER / "monitoring" / "scrape.yaml").read_text())
    (job,) = settings["scrape_configs"]
    (folder / "token").write_text(TOKEN)
    job["authorization"] = {"credentials_file": str(folder / "token")}
    assert job.pop("kubernetes_sd_configs") == [
        {"role": "pod", "namespaces": {"names": ["tinkerscript"]}}
    ]
    job["file_sd_configs"] = [{"files": [str(folder / "pods.json")], "refresh_interval": "1s"}]
    settings["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    path = folder / "prometheus.yaml"
    path.write_text(json.dumps(settings))
    return path


@contextmanager
def discovery(cluster: NodesCluster, path: Path) -> Iterator[None]:
    """What Prometheus itself would find of pods, with its labels, written to ``path`` each
    second.
    """
    over = threading.Event()

    def found(pod: Any) -> dict[str, Any]:
        labels = {
            "namespace": pod.metadata.namespace, "pod_name": pod.metadata.name, "pod_phase": pod.status.phase,
            "pod_label_app": pod.metadata.labels["app"], "pod_container_port_name": "http",
        }  # fmt: skip
        named = {f"__meta_kubernetes_{name}": value for name, value in labels.items()}
        return {"targets": [f"{pod.status.pod_ip}:8000"], "labels": named}

    def write() -> None:
        while not over.wait(1):
            with suppress(ApiException, HTTPError):
                pods = [found(pod) for pod in cluster.pods() if pod.status.pod_ip]
                path.with_suffix(".new").write_text(json.dumps(pods))
                path.with_suffix(".new").replace(path)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(20)


def manifest_of(kind: str) -> dict[str, Any]:
    return next(
        found
        for found in manifests()
        if (found["kind"], found["metadata"]["name"]) == (kind, "web")
    )


def web_apply(cluster: NodesCluster, data: Path) -> None:
    """The Deployment of the manifests from this checkout, over SQLite."""
    subprocess.run(["chown", "-R", f"{USER}:{USER}", data], check=True, timeout=20)
    own = {"metadata": {"name": "tinkerscript"}}
    variables = {
        "TINKERSCRIPT_DATA": "/data", "TINKERSCRIPT_HOST": "0.0.0.0", "DJANGO_SETTINGS_MODULE": "console.settings",
        "S3_ENDPOINT_URL": "http://127.0.0.1:1",
    }  # fmt: skip
    core = client.CoreV1Api(cluster.api)
    core.create_namespaced_config_map(cluster.namespace, own | {"data": variables})
    words = {"TINKERSCRIPT_SECRET_KEY": SECRET_KEY, "TINKERSCRIPT_METRICS_TOKEN": TOKEN}
    words |= {"S3_ACCESS_KEY": "unused", "S3_SECRET_KEY": "unused"}
    core.create_namespaced_secret(cluster.namespace, own | {"stringData": words})
    deployment = manifest_of("Deployment")
    deployment["metadata"]["namespace"] = cluster.namespace
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container |= {
        "image": of_checkout(PRODUCT),
        "command": [sys.executable, "-m", "console.server.uvicorn"],
    }
    container |= {"workingDir": str(ROOT)}
    (claimed,) = [volume for volume in pod["volumes"] if volume["name"] == "data"]
    claimed["persistentVolumeClaim"]["claimName"] = CLAIM
    client.AppsV1Api(cluster.api).create_namespaced_deployment(cluster.namespace, deployment)

    def containers() -> list[Any]:
        return [each for pod in cluster.pods() for each in pod.status.container_statuses or []]

    def is_over() -> bool:
        return any(each.ready or each.restart_count for each in containers())

    assert wait_until(is_over, timeout_s=WAIT_S, poll_s=0.5) and containers()[0].ready, said(
        cluster
    )


def said(cluster: NodesCluster) -> list[str]:
    core = client.CoreV1Api(cluster.api)
    return [
        core.read_namespaced_pod_log(pod.metadata.name, cluster.namespace) for pod in cluster.pods()
    ]


def autoscaler_apply(cluster: NodesCluster) -> None:
    """That of the manifests with the component's metric, from one server to three, and without its
    patience.
    """
    wanted = manifest_of("HorizontalPodAutoscaler")
    component = yaml.safe_load(
        (DOCKER / "kubernetes" / "relay-calls" / "kustomization.yaml").read_text()
    )
    (change,) = yaml.safe_load(component["patches"][0]["patch"])
    assert (change["op"], change["path"]) == ("add", "/spec/metrics/-")
    change["value"]["pods"]["target"]["averageValue"] = str(CALLS_A_SERVER)
    assert change["value"]["pods"]["metric"]["name"] == next(iter(RELAY_IN_FLIGHT.collect())).name
    wanted["metadata"]["namespace"] = cluster.namespace
    wanted["spec"] |= {"minReplicas": 1, "maxReplicas": 3}
    wanted["spec"]["metrics"].append(change["value"])
    wanted["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 0
    wanted["spec"]["behavior"]["scaleDown"]["policies"] = [
        {"type": "Pods", "value": 2, "periodSeconds": 1}
    ]
    client.AutoscalingV2Api(cluster.api).create_namespaced_horizontal_pod_autoscaler(
        cluster.namespace, wanted
    )


def test_servers_come_with_the_calls_that_relays_carry_and_go_with_them(scaled: Scaled) -> None:
    """Where one of both metrics is not served, servers still come by the other, and none goes."""
    cluster, api = scaled.cluster, scaled.cluster.api
    for group in (CUSTOM, RESOURCE):
        metrics_api_register(api, cluster.namespace, group, scaled.port)
    autoscaler_apply(cluster)
    scaled.until(1)
    scaled.calls_begin(3 * CALLS_A_SERVER)
    scaled.until(3)
    assert scaled.condition("ScalingActive").status == "True"
    shared = wait_until(
        lambda: scaled.calls_a_server() == str(CALLS_A_SERVER), timeout_s=WAIT_S, poll_s=0.5
    )
    assert shared, scaled.calls_a_server()
    scaled.calls_end()
    scaled.until(1)

    metrics_api_remove(api, CUSTOM)  # no adapter
    scaled.metrics.cpu = 1000  # twice what a server asks for
    scaled.until(3)
    scaled.metrics.cpu = 1
    assert wait_until(
        lambda: scaled.condition("ScalingActive").reason == "FailedGetPodsMetric", timeout_s=WAIT_S
    )
    before = scaled.autoscaler().status
    assert (before.current_replicas, len(cluster.pods())) == (3, 3)
    metrics_api_register_again(scaled)
    scaled.until(1)


def metrics_api_register_again(scaled: Scaled) -> None:
    """The adapter is installed; its Service is still there."""
    client.CoreV1Api(scaled.cluster.api).delete_namespaced_service(
        "custom", scaled.cluster.namespace
    )
    metrics_api_register(scaled.cluster.api, scaled.cluster.namespace, CUSTOM, scaled.port)
