"""The launcher ray: what is refused before anything starts, and what a cluster is not told. A real
cluster is in test_contract.py.
"""

import json
import logging
import re
import tomllib
from pathlib import Path

import httpx
import pytest
import yaml
from django.core.exceptions import ImproperlyConfigured

from console.scheduling.launchers import ray
from console.scheduling.launchers.options import launcher_options_read
from console.scheduling.launchers.protocol import Handle, LauncherUnavailable, Resources
from console.scheduling.launchers.ray import RayLauncher

ROOT = Path(__file__).resolve().parents[3]
ADDRESS = "http://ray.example.org:8265"
GIVEN = {
    "TINKERSCRIPT_LAUNCHER": "ray",
    "TINKERSCRIPT_RAY_ADDRESS": ADDRESS,
    "TINKERSCRIPT_RUNTIME_CPUS": "4",
    "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "16",
}


class Cluster:
    """The API of a dashboard, with jobs that stay as they are."""

    def __init__(self) -> None:
        self.version, self.token, self.is_page = ray.VERSION, "", False
        self.machines = [{"CPU": 8.0, "memory": float(64 << 30)}] * 2
        self.jobs: dict[str, dict[str, object]] = {}
        self.bodies: list[dict[str, object]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return httpx.Response(401, text="Unauthorized")
        if self.is_page:
            return httpx.Response(200, text="<html>")
        if request.url.path == "/api/version":
            return httpx.Response(200, json={"ray_version": self.version})
        if request.url.path == "/api/v0/nodes":
            nodes = [
                {"node_ip": f"10.0.0.{number}", "state": "ALIVE", "resources_total": has}
                for number, has in enumerate(self.machines, start=1)
            ]
            return httpx.Response(200, json={"data": {"result": {"result": nodes}}})
        if request.method == "POST":
            body = json.loads(request.content)
            self.bodies.append(body)
            self.jobs[body["submission_id"]] = {
                "submission_id": body["submission_id"],
                "status": "RUNNING",
                "driver_agent_http_address": "http://10.0.0.2:52365",
            }
            return httpx.Response(200, json={})
        return httpx.Response(200, json=list(self.jobs.values()))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster, whole = Cluster(), httpx.Client
    transport = httpx.MockTransport(cluster.answer)
    monkeypatch.setattr(ray.httpx, "Client", lambda **given: whole(transport=transport, **given))
    return cluster


def launcher(**changes: object) -> RayLauncher:
    usual = {"token": "word", "resources": Resources(memory_bytes=16 << 30, cpus=4)}
    return RayLauncher(ADDRESS, **(usual | changes))


def fresh(folder: Path, **more: object) -> Handle:
    named = {"session_id": "ses_1", "instance_id": "1" * 8, "folder": folder / "ses_1"}
    return RayLauncher.new_handle(**named) | more


def test_the_version_is_that_of_the_lock() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert f"ray=={ray.VERSION}" in groups["ray"]


def test_the_manuals_cluster_of_kuberay_has_that_version_and_a_token() -> None:
    written = (ROOT / "docs/howto/cluster.md").read_text()
    (manifest,) = re.findall(r"```yaml\n(apiVersion: ray\.io.*?)```", written, re.DOTALL)
    cluster = yaml.safe_load(manifest)
    assert cluster["spec"]["rayVersion"] == ray.VERSION
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    assert f"TINKERSCRIPT_RAY_ADDRESS=http://{name}-head-svc.{namespace}.svc:8265\n" in written


def test_a_job_has_its_machine_and_no_secret_of_the_session(cluster: Cluster, tmp_path) -> None:
    """Whoever may list the jobs of a cluster reads what it was told of each."""
    handle = fresh(tmp_path, nodes=2, gpus=0)
    launcher().start(handle, environment={"TINKERSCRIPT_LEASE": "tml-ls-secret"})
    (body,) = cluster.bodies
    assert body["entrypoint_num_cpus"] == 4 and body["entrypoint_memory"] == 16 << 30
    assert "secret" not in json.dumps(body)
    variables = Path(handle["folder"]) / ray.VARIABLES
    assert variables.stat().st_mode & 0o777 == 0o600
    written = variables.read_text()
    assert "export TINKERSCRIPT_LEASE=tml-ls-secret\n" in written
    assert '"CPU": 4' in written and "TINKERSCRIPT_RUNTIME_BUNDLE" in written
    assert launcher().address(handle, port=7000) == "10.0.0.2:7000"


def test_a_cluster_of_another_version_is_refused_with_both(cluster: Cluster, tmp_path) -> None:
    cluster.version = "2.9.3"
    with pytest.raises(OSError, match=f"has Ray 2.9.3; sessions need {re.escape(ray.VERSION)}"):
        launcher().start(fresh(tmp_path), environment={})
    assert not cluster.bodies


def test_a_cluster_that_is_too_small_is_refused_with_what_was_found(
    cluster: Cluster, tmp_path
) -> None:
    cluster.machines = [{"CPU": 8.0, "memory": float(64 << 30)}, {"CPU": 2.0}]
    says = r"2 machines with CPU 4, memory .* has 1 of them; .*10.0.0.2 \(CPU 2, memory 0\)"
    with pytest.raises(OSError, match=says):
        launcher().start(fresh(tmp_path, nodes=2), environment={})
    assert not cluster.bodies


def test_a_cluster_that_does_not_take_the_token_is_named_with_the_setting(
    cluster: Cluster, tmp_path
) -> None:
    cluster.token = "another"
    for given, says in (("word", "does not take the token"), ("", "asks for a token")):
        with pytest.raises(LauncherUnavailable, match=f"{says}.* TINKERSCRIPT_RAY_TOKEN_FILE"):
            launcher(token=given).start(fresh(tmp_path), environment={})


def test_a_cluster_without_authentication_gives_a_warning_of_what_it_means(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        launcher(token="word")
        assert not caplog.text
        launcher(token="")
    assert "whoever reaches it can run any program on its nodes" in caplog.text


def test_what_is_no_dashboard_is_named(cluster: Cluster, tmp_path) -> None:
    cluster.is_page = True
    with pytest.raises(LauncherUnavailable, match="is not the dashboard of a Ray cluster"):
        launcher().inspect(fresh(tmp_path))


def options(**changes: str) -> object:
    return launcher_options_read(
        server_url="http://server.example.org",
        s3_endpoint_url="http://s3.example.org",
        most=4,
        source=GIVEN | changes,
    )


def test_its_settings_are_read_and_malformed_ones_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("word\n")
    found = options(TINKERSCRIPT_RAY_TOKEN_FILE=str(file))
    assert (found.ray_address, found.ray_token) == (ADDRESS, "word") and "word" not in repr(found)
    for changes, says in (
        ({"TINKERSCRIPT_RAY_ADDRESS": ""}, "needs TINKERSCRIPT_RAY_ADDRESS"),
        ({"TINKERSCRIPT_RAY_ADDRESS": "ray-head:6379"}, "address of the cluster's dashboard"),
        ({"TINKERSCRIPT_RAY_TOKEN_FILE": str(tmp_path / "none")}, "No such file"),
        ({"TINKERSCRIPT_LAUNCHER": "slurm"}, "does nothing with"),
    ):
        with pytest.raises(ImproperlyConfigured, match=says):
            options(**changes)
    file.write_text("")
    with pytest.raises(ImproperlyConfigured, match="holds no token"):
        options(TINKERSCRIPT_RAY_TOKEN_FILE=str(file))
