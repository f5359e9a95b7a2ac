"""What stands in docker/: manifests that Kubernetes takes, rights that are just enough, images that
fit the code.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from console.scheduling.launchers import docker as docker_launcher
from console.scheduling.launchers import options
from console.scheduling.launchers.docker_networks import DOCKER_NETWORK
from console.scheduling.launchers.kubernetes import manifests as kubernetes_manifests
from console.scheduling.processes import wait_until
from launching.backends import WAIT, kubernetes_launcher
from launching.fake_kubernetes import VERSION, FakeKubernetes
from launching.manifests import DOCKER, manifests
from tinkerscript.wire.version import VERSION as SERVER

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))
# Every word that a line of a Dockerfile may begin with, here.
INSTRUCTIONS = {
    "ARG",
    "FROM",
    "ENV",
    "WORKDIR",
    "COPY",
    "RUN",
    "USER",
    "EXPOSE",
    "CMD",
    "ENTRYPOINT",
}


def manifest_of(kind: str, name: str) -> dict:
    return next(
        found for found in manifests() if (found["kind"], found["metadata"]["name"]) == (kind, name)
    )


def namespace_of(manifest: dict) -> str | None:
    return manifest["metadata"].get("namespace")


def test_kubernetes_takes_every_manifest() -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_every_manifest_is_applied() -> None:
    """But for what a cluster must be able to serve first, which a line that is commented out
    names.
    """
    listed = yaml.safe_load((DOCKER / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml", "relay-calls"} == {
        path.name for path in (DOCKER / "kubernetes").iterdir()
    }


def test_every_image_has_the_version_of_the_server() -> None:
    """An image without a version, or called latest, is another one after the next build."""
    (image,) = yaml.safe_load((DOCKER / "kubernetes" / "kustomization.yaml").read_text())["images"]
    assert image == {"name": "tinkerscript-server", "newTag": SERVER}
    for service in compose()["services"].values():
        _, _, tag = service["image"].rpartition(":")
        assert tag and "latest" not in tag and "/" not in tag


def test_the_reconciler_may_do_what_the_launcher_asks_and_nothing_more(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    asked: set[tuple[str, str, str]] = set()
    answer = cluster.answer

    def listening(method: str, target: str, body: dict | None) -> object:
        group, kind, name, log = re.match(
            r"/apis?/(?:v1|([\w.]+)/v1)/namespaces/tests/(\w+)(/[\w.-]+)?(/log)?", target
        ).groups()
        read = "get" if name else "list"
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": read}[method]
        asked.add((group or "", f"{kind}{log or ''}", verb))
        return answer(method, target, body)

    cluster.answer = listening
    try:
        launcher = kubernetes_launcher(cluster.url)
        fresh = launcher.new_handle(
            session_id="ses_0123456789abcdef", instance_id="0123abcd", folder=tmp_path
        )
        for _ in range(2):
            launcher.start(fresh, environment={"PROGRAM": f"trap '' TERM; echo up; {WAIT}"})
        assert wait_until(lambda: launcher.logs(fresh, lines=1) == ["up"], timeout_s=60)
        launcher.inspect(fresh)
        launcher.stop(fresh, grace_s=0)
    finally:
        cluster.close()
    rules = manifest_of("Role", "reconcile")["rules"]
    allowed = {
        (group, kind, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked == allowed


@pytest.mark.smoke
def test_who_may_make_jobs_finds_no_secret_of_the_server_to_mount() -> None:
    """A pod may mount whatever stands in its own namespace."""
    servers = [found for found in manifests() if "template" in found.get("spec", {})]
    (of_servers,) = {namespace_of(found) for found in servers}
    assert all("secretRef" in json.dumps(found) for found in servers)
    given = manifest_of("ConfigMap", "tinkerscript")["data"]["TINKERSCRIPT_KUBERNETES"]
    runtimes = dict(pair.split("=") for pair in given.split(","))["namespace"]
    assert runtimes != of_servers
    granted = [found for found in manifests() if found["kind"] in ("Role", "RoleBinding")]
    assert {namespace_of(found) for found in granted} == {runtimes}
    assert not [found for found in manifests() if found["kind"].startswith("Cluster")]
    (subject,) = manifest_of("RoleBinding", "reconcile")["subjects"]
    assert (subject["name"], subject["namespace"]) == ("reconcile", of_servers)
    (admitted,) = manifest_of("NetworkPolicy", "lease")["spec"]["ingress"][0]["from"]
    assert admitted["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": runtimes}
    assert namespace_of(manifest_of("NetworkPolicy", "runtimes")) == runtimes


def test_the_settings_of_the_manifests_are_ones_that_start(monkeypatch) -> None:
    settings = manifest_of("ConfigMap", "tinkerscript")["data"]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    read = options.launcher_options_read(
        server_url=settings["TINKERSCRIPT_RUNTIME_SERVER_URL"],
        s3_endpoint_url=settings["S3_ENDPOINT_URL"],
        most=8,
    )
    assert read.name == "kubernetes" and read.resources.gpus == 1
    claims = [found for found in manifests() if found["kind"] == "PersistentVolumeClaim"]
    assert {found["metadata"]["name"] for found in claims} == {read.kubernetes_claim}
    spaces = {found["metadata"]["name"] for found in manifests() if found["kind"] == "Namespace"}
    assert (
        read.kubernetes_namespace in spaces and {namespace_of(found) for found in claims} == spaces
    )
    volumes = {
        found["metadata"]["name"]: found["spec"]
        for found in manifests()
        if found["kind"] == "PersistentVolume"
    }
    of_claims = [volumes[found["spec"]["volumeName"]] for found in claims]
    assert of_claims[0]["nfs"] == of_claims[1]["nfs"]  # the same files
    assert [(of["claimRef"]["namespace"], of["claimRef"]["name"]) for of in of_claims] == [
        (namespace_of(found), found["metadata"]["name"]) for found in claims
    ]


def test_the_world_reaches_the_web_servers_by_tls_under_their_public_name_and_nothing_else() -> (
    None
):
    settings, ingress = (
        manifest_of("ConfigMap", "tinkerscript")["data"],
        manifest_of("Ingress", "web")["spec"],
    )
    (rule,), (tls,) = ingress["rules"], ingress["tls"]
    assert settings["TINKERSCRIPT_PUBLIC_URL"] == f"https://{rule['host']}" and tls["hosts"] == [
        rule["host"]
    ]
    assert settings["TINKERSCRIPT_TRUSTED_PROXIES"] == "1"
    service = manifest_of("Service", "web")["spec"]
    assert {path["backend"]["service"]["name"] for path in rule["http"]["paths"]} == {"web"}
    assert rule["http"]["paths"][0]["backend"]["service"]["port"]["name"] in {
        port["name"] for port in service["ports"]
    }
    (admitted,) = manifest_of("NetworkPolicy", "web")["spec"]["ingress"]
    (container,) = manifest_of("Deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert [port["port"] for port in admitted["ports"]] == [
        port["name"] for port in container["ports"]
    ]


def test_what_chooses_web_servers_and_reconcilers_chooses_pods_that_there_are() -> None:
    chosen = {
        ("Deployment", "web"): [manifest_of("PodDisruptionBudget", "web")["spec"]["selector"],
                                manifest_of("NetworkPolicy", "web")["spec"]["podSelector"]],
        ("Deployment", "lease"): [manifest_of("PodDisruptionBudget", "lease")["spec"]["selector"],
                                  manifest_of("NetworkPolicy", "lease")["spec"]["podSelector"],
                                  {"matchLabels": manifest_of("Service", "lease")["spec"]["selector"]}],
        ("Deployment", "reconcile"): [manifest_of("PodDisruptionBudget", "reconcile")["spec"]["selector"]],
    }  # fmt: skip
    for (kind, name), selectors in chosen.items():
        labels = manifest_of(kind, name)["spec"]["template"]["metadata"]["labels"]
        assert all(selector["matchLabels"].items() <= labels.items() for selector in selectors)
    scaled = manifest_of("HorizontalPodAutoscaler", "web")["spec"]
    assert "replicas" not in manifest_of("Deployment", scaled["scaleTargetRef"]["name"])["spec"]
    assert scaled["minReplicas"] >= 2


def test_our_pods_are_closed_and_others_of_the_namespace_are_not() -> None:
    denied = manifest_of("NetworkPolicy", "deny-by-default")["spec"]
    assert denied["policyTypes"] == ["Ingress"] and "ingress" not in denied
    chosen = denied["podSelector"]["matchLabels"].items()
    assert chosen, "an empty selector is every pod: a database, or cert-manager's solver"
    pods = [
        manifest["spec"]["template"]
        for manifest in manifests()
        if "template" in manifest.get("spec", {})
    ]
    labels = [pod["metadata"]["labels"] for pod in pods] + [kubernetes_manifests.RUNTIME]
    assert len(labels) >= 4 and all(chosen <= of.items() for of in labels)


def test_servers_are_whom_runtimes_admit() -> None:
    for kind, name in (("Deployment", "web"), ("Deployment", "reconcile")):
        labels = manifest_of(kind, name)["spec"]["template"]["metadata"]["labels"]
        assert kubernetes_manifests.SERVER.items() <= labels.items()
    denied = manifest_of("NetworkPolicy", "runtimes")["spec"]["podSelector"]["matchLabels"]
    assert denied == kubernetes_manifests.RUNTIME


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_copies_what_is_there_and_runs_as_the_launchers_user(path: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    lines = [
        line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")
    ]
    assert {line[0] for line in lines} <= INSTRUCTIONS
    for line in lines:
        if line[0] == "COPY" and not line[1].startswith("--"):
            assert all(list(ROOT.glob(source)) for source in line[1:-1]), line
        for name in re.findall(r"requirements/[\w-]+\.txt", " ".join(line)):
            assert (ROOT / name).is_file(), name
    assert [line[1] for line in lines if line[0] == "USER"][
        -1
    ] == f"{docker_launcher.USER}:{docker_launcher.USER}"
    assert docker_launcher.USER == kubernetes_manifests.USER


def test_every_folder_that_an_image_copies_is_let_into_its_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:].split("/")[0] for line in ignored if line.startswith("!")}
    for path in DOCKERFILES:
        for line in path.read_text().splitlines():
            if line.startswith("COPY ") and not line.startswith("COPY --from"):
                assert {source.split("/")[0] for source in line.split()[1:-1]} <= let_in, line


def test_every_image_is_built_under_the_name_that_compose_and_the_launchers_look_for(
    tmp_path: Path,
) -> None:
    stub = tmp_path / "docker"
    stub.write_text('#!/bin/sh\necho "$@"\n')
    stub.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def build(*words: str) -> subprocess.CompletedProcess[str]:
        command = [DOCKER / "build.sh", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)

    done = build("server", "cpu", "cuda", "--", "--network", "host")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert all(line[:3] == ["build", "--network", "host"] and line[-1] == "." for line in lines)
    named = [line[line.index("-t") + 1] for line in lines]
    assert named == [
        f"tinkerscript-server:{SERVER}",
        f"tinkerscript-runtime:{SERVER}-cpu",
        f"tinkerscript-runtime:{SERVER}-cuda",
    ]
    assert {line[line.index("-f") + 1] for line in lines} == {
        f"docker/{path.name}" for path in DOCKERFILES
    }
    assert compose()["x-server"]["image"] in named
    assert compose()["x-server"]["environment"]["TINKERSCRIPT_RUNTIME_IMAGE"].endswith(
        f":-{named[1]}}}"
    )
    assert (
        manifest_of("ConfigMap", "tinkerscript")["data"]["TINKERSCRIPT_RUNTIME_IMAGE"] == named[2]
    )
    for words in ((), ("gpu",)):
        refused = build(*words)
        assert refused.returncode != 0 and "IMAGE is one of server, cpu, cuda" in refused.stderr


def compose() -> dict:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def test_everything_that_compose_asks_for_is_in_the_example() -> None:
    asked = set(re.findall(r"\$\{(\w+)(?::\?[^}]*)?\}", (DOCKER / "compose.yaml").read_text()))
    given = {
        line.partition("=")[0]
        for line in (DOCKER / "example.env").read_text().splitlines()
        if "=" in line[1:]
    }
    assert asked == {name for name in given if not name.startswith("#")}


def test_the_docker_socket_is_the_reconcilers_alone_and_the_databases_are_published_to_no_one() -> (
    None
):
    services = compose()["services"]
    holders = [name for name, service in services.items() if "docker.sock" in json.dumps(service)]
    assert holders == ["reconcile"]
    assert {name for name, service in services.items() if service.get("ports")} == {
        "web",
        "store",
        "caddy",
    }
    on_runtimes = {
        name for name, service in services.items() if "runtimes" in service.get("networks", [])
    }
    assert on_runtimes == {"web", "lease"}


def test_the_settings_of_compose_are_ones_that_start(monkeypatch) -> None:
    settings = compose()["x-server"]["environment"]
    for name, value in settings.items():
        # first: some stand in defaults of others
        given = re.sub(r"\$\{\w+(:\?[^}]*)?\}", "7", str(value))
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", given))
    read = options.launcher_options_read(
        server_url=settings["TINKERSCRIPT_RUNTIME_SERVER_URL"],
        s3_endpoint_url="http://store.example.com:8333",
        most=1,
    )
    assert read.name == "docker"
    assert compose()["networks"]["runtimes"]["name"] == DOCKER_NETWORK


def test_docker_compose_takes_the_file(tmp_path: Path) -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("no Docker Compose: `docker compose` is not installed")
    example = tmp_path / "env"
    example.write_text(
        re.sub(r"=$", "=7", (DOCKER / "example.env").read_text(), flags=re.MULTILINE)
    )
    command = [
        "docker",
        "compose",
        "--env-file",
        example,
        "-f",
        DOCKER / "compose.yaml",
        "config",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
