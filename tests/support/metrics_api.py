"""A Kubernetes metrics API by hand, for the API server to pass on to: what prometheus-adapter and
metrics-server serve.

Figures of pods are what a Prometheus has by the rule of docker/monitoring/adapter.yaml; their CPU
is what a test says.
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import yaml
from kubernetes import client

from console.config.own_certificate import certificate_make

NOTHING = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
RULES = Path(__file__).resolve().parents[2] / "docker" / "monitoring" / "adapter.yaml"
CUSTOM, RESOURCE = ("custom.metrics.k8s.io", "v1beta2"), ("metrics.k8s.io", "v1beta1")


class MetricsApi:
    """``cpu`` is what each pod uses, in thousandths of a processor."""

    def __init__(self, api: client.ApiClient, prometheus_url: str) -> None:
        self.cpu = 1
        self._core, self._prometheus_url = client.CoreV1Api(api), prometheus_url
        (self._rule,) = yaml.safe_load(RULES.read_text())["rules"]["custom"]

    def respond(self, target: str) -> dict[str, Any] | None:
        """To GET; None where there is nothing."""
        url = urlsplit(target)
        # GROUP, VERSION, namespaces, NAMESPACE, pods, *, METRIC
        parts = unquote(url.path).strip("/").split("/")[1:]
        selector = parse_qs(url.query).get("labelSelector", [""])[0]
        match parts:
            case [group, version] if (group, version) in (CUSTOM, RESOURCE):
                return _resources(f"{group}/{version}")
            case [group, version, "namespaces", namespace, "pods", "*", metric] if (
                group,
                version,
            ) == CUSTOM:
                return self._figures(namespace, metric, self._pods(namespace, selector))
            case [group, version, "namespaces", namespace, "pods"] if (group, version) == RESOURCE:
                return self._cpus(namespace, self._pods(namespace, selector))
        return None

    def query(self, namespace: str, metric: str, pods: list[str]) -> list[dict[str, Any]]:
        """What Prometheus has for the rule, with what prometheus-adapter puts into it."""
        assert self._rule["seriesQuery"].startswith(f"{metric}{{")
        named = {
            name: found["resource"] for name, found in self._rule["resources"]["overrides"].items()
        }
        (of_namespace,), (of_pod,) = (
            [label for label, kind in named.items() if kind == it] for it in named.values()
        )
        matchers = f'{of_namespace}="{namespace}",{of_pod}=~"{"|".join(pods)}"'
        filled = {"<<.Series>>": metric, "<<.LabelMatchers>>": matchers, "<<.GroupBy>>": of_pod}
        query = self._rule["metricsQuery"]
        for name, value in filled.items():
            query = query.replace(name, value)
        said = httpx.get(
            f"{self._prometheus_url}/api/v1/query", params={"query": query}, timeout=20
        ).json()
        return [
            {"pod": each["metric"][of_pod], "value": each["value"][1]}
            for each in said["data"]["result"]
        ]

    def _pods(self, namespace: str, selector: str) -> list[str]:
        found = self._core.list_namespaced_pod(
            namespace, label_selector=selector, _request_timeout=20
        ).items
        return [pod.metadata.name for pod in found]

    def _figures(self, namespace: str, metric: str, pods: list[str]) -> dict[str, Any]:
        def item(pod: str, value: str) -> dict[str, Any]:
            described = {"kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "/v1"}
            return {
                "describedObject": described,
                "metric": {"name": metric},
                "timestamp": _now(),
                "value": value,
            }

        items = [item(each["pod"], each["value"]) for each in self.query(namespace, metric, pods)]
        return {
            "kind": "MetricValueList",
            "apiVersion": "/".join(CUSTOM),
            "metadata": {},
            "items": items,
        }

    def _cpus(self, namespace: str, pods: list[str]) -> dict[str, Any]:
        def item(pod: str) -> dict[str, Any]:
            usage = {"cpu": f"{self.cpu}m", "memory": "1Mi"}
            of = {
                "metadata": {"name": pod, "namespace": namespace},
                "timestamp": _now(),
                "window": "10s",
            }
            return of | {"containers": [{"name": "web", "usage": usage}]}

        listed = [item(pod) for pod in pods]
        return {
            "kind": "PodMetricsList",
            "apiVersion": "/".join(RESOURCE),
            "metadata": {},
            "items": listed,
        }


@contextmanager
def metrics_api_served(metrics: MetricsApi, folder: Path) -> Iterator[int]:
    """The port of loopback on which it is, by TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = metrics.respond(self.path)
            body = json.dumps(found or NOTHING).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """It is silent."""

    (folder / "metrics.crt").write_text("".join(certificate_make("metrics")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "metrics.crt")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def metrics_api_register(
    api: client.ApiClient, namespace: str, group: tuple[str, str], port: int
) -> None:
    """Have the API server pass ``group`` on to ``port`` of loopback, which a Service names."""
    name = group[0].partition(".")[0]
    service = {
        "metadata": {"name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    client.CoreV1Api(api).create_namespaced_service(namespace, service)
    spec = {
        "service": {"namespace": namespace, "name": name, "port": port},
        "group": group[0], "version": group[1], "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100, "versionPriority": 100,
    }  # fmt: skip
    wanted = {"metadata": {"name": f"{group[1]}.{group[0]}"}, "spec": spec}
    client.ApiregistrationV1Api(api).create_api_service(wanted)


def metrics_api_remove(api: client.ApiClient, group: tuple[str, str]) -> None:
    """As where none is installed."""
    client.ApiregistrationV1Api(api).delete_api_service(f"{group[1]}.{group[0]}")


def _resources(version: str) -> dict[str, Any]:
    named = {
        "name": "pods",
        "singularName": "",
        "namespaced": True,
        "kind": "PodMetrics",
        "verbs": ["get", "list"],
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version,
        "resources": [named],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
