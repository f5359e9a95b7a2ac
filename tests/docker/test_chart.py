"""The Helm chart: made of the plain manifests, and with their values the same objects."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from console.server.metrics import RELAY_IN_FLIGHT
from launching.fake_kubernetes import VERSION
from launching.manifests import DOCKER, manifests
from tinkerscript.wire.version import VERSION as SERVER

CHART = DOCKER / "helm"
PYTHON = DOCKER.parent / ".venv-helm" / "bin" / "python"
Objects = dict[tuple[str, str, str], dict[str, Any]]  # by kind, namespace and name
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
# What the plain manifests say where the chart has no default.
GIVEN = {
    "publicUrl": "https://tinkerscript.example.com",
    "s3": {"endpointUrl": "https://s3.example.com"},
    "storage": {"volume": {"nfs": {"server": "nfs.example.com", "path": "/tinkerscript"}}},
}
RENDER = """
import json, sys
import helm_python as helm
for given in json.load(sys.stdin):
    with helm.Chart.load(sys.argv[1]) as chart:
        made = chart.render(given, name="lab", namespace="tinkerscript")
    lint = helm.lint(sys.argv[1], given, strict=True, namespace="tinkerscript")["messages"]
    print(json.dumps({"made": list(made.values()), "lint": [each for each in lint if each["severity"] > 1]}))
"""


def merged(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """As Helm does it."""
    both = dict(defaults)
    for name, value in given.items():
        known = defaults.get(name)
        both[name] = merged(known, value) if isinstance(value, dict) and isinstance(known, dict) else value
    return both


def render(*given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What Helm makes of each of some values. Skips without Helm."""
    if not PYTHON.exists():
        pytest.skip("no Helm: requirements/install.sh helm")
    command = [PYTHON, "-c", RENDER, CHART]
    return subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=60)


def rendered(*given: dict[str, Any]) -> list[Objects]:
    """The objects for each of some values; what Helm finds fault with fails. Skips without Helm."""
    done = render(*given)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["lint"] for each in said] == [[]] * len(given)
    return [by_name(found for text in each["made"] for found in yaml.safe_load_all(text) if found) for each in said]


def by_name(objects: Iterable[dict[str, Any]]) -> Objects:
    named = ((found, found["metadata"]) for found in objects)
    return {(found["kind"], metadata.get("namespace", ""), metadata["name"]): found for found, metadata in named}


def test_the_templates_are_made_of_the_manifests_as_they_are(tmp_path: Path) -> None:
    """Else: python docker/chart.py"""
    subprocess.run([sys.executable, DOCKER / "chart.py", tmp_path], check=True, timeout=30)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    plain = {path.name for path in (DOCKER / "kubernetes").iterdir()} - {"kustomization.yaml", "relay-calls"}
    assert made.keys() == plain


def test_the_charts_objects_are_those_of_the_manifests() -> None:
    (made,), plain = rendered(GIVEN), by_name(manifests())
    del plain["Namespace", "", "tinkerscript"]  # the release's, which Helm makes
    plain["Job", "tinkerscript", "prepare-1"] = plain.pop(("Job", "tinkerscript", "prepare"))
    assert made.keys() == plain.keys()
    for key, found in made.items():
        pod = found.get("spec", {}).get("template")
        if pod is not None:
            pod["metadata"].pop("annotations", None)  # of the settings, so that a change of them restarts
            (container,) = pod["spec"]["containers"]
            assert container["image"] == f"tinkerscript-server:{SERVER}"
            container["image"] = "tinkerscript-server"
        assert found | {"metadata": None} == plain[key] | {"metadata": None}, key
        assert found["metadata"] | {"name": ""} == plain[key]["metadata"] | {"name": ""}, key


def test_every_value_does_something() -> None:
    """Other values, other objects, which Kubernetes takes all the same."""
    changes: list[dict[str, Any]] = [
        {"publicUrl": "https://other.example.org:8443"}, {"trustedProxies": 2}, {"secret": "mine"},
        {"image": {"server": "registry.example.org/a:1"}}, {"image": {"runtime": "registry.example.org/b:1"}},
        {"imagePullSecrets": [{"name": "registry"}]}, {"settings": {"TINKERSCRIPT_SIGN_UP": "closed"}},
        {"s3": {"endpointUrl": "https://other.example.org"}}, {"s3": {"bucket": "other"}},
        {"ingress": {"enabled": False}}, {"ingress": {"className": "nginx"}}, {"ingress": {"tlsSecret": "other"}},
        {"ingress": {"annotations": {"a": "b"}}}, {"networkPolicies": False},
        {"web": {"replicas": 3, "autoscaling": {"enabled": False}}}, {"web": {"autoscaling": {"minReplicas": 3}}},
        {"web": {"autoscaling": {"maxReplicas": 30}}}, {"web": {"autoscaling": {"cpuPercent": 50}}},
        {"web": {"autoscaling": {"relayCalls": 100}}},
        *({name: {"replicas": 3}} for name in ("lease", "reconcile")),
        *({name: {"resources": {"limits": {"memory": "3Gi"}}}} for name in ("web", "lease", "reconcile", "prepare")),
        {"runtimes": {"namespace": "other"}}, {"runtimes": {"createNamespace": False}},
        *({"runtimes": {name: 3}} for name in ("max", "cpus", "memoryGib", "gpus")),
        {"storage": {"create": False}}, {"storage": {"size": "1Ti"}},
        {"storage": {"volume": {"nfs": {"server": "other.example.org"}}}},
    ]  # fmt: skip
    usual, *others = rendered(GIVEN, *(merged(GIVEN, change) for change in changes))
    for change, made in zip(changes, others, strict=True):
        different = [found for key, found in made.items() if found != usual.get(key)]
        assert different or made.keys() < usual.keys(), change
        for found in different:
            kubernetes_validate.validate(found, VERSION, strict=True)
    scaled = others[changes.index({"web": {"autoscaling": {"relayCalls": 100}}})]
    by_calls = scaled["HorizontalPodAutoscaler", "tinkerscript", "web"]["spec"]["metrics"][1]["pods"]
    assert by_calls["metric"]["name"] == next(iter(RELAY_IN_FLIGHT.collect())).name
    assert by_calls["target"]["averageValue"] == "100"
    assert others[0]["Ingress", "tinkerscript", "web"]["spec"]["rules"][0]["host"] == "other.example.org"


@pytest.mark.parametrize(
    "given",
    [{"publicUrl": "tinkerscript.example.com"}, {"publicUrl": ""}, {"storage": {"volume": {}}}, {"replicas": 3},
     {"web": {"replica": 3}}, {"runtimes": {"gpus": "one"}}, {"settings": {"SIGN_UP": "closed"}}],
    ids=str,
)  # fmt: skip
def test_values_that_cannot_be_meant_are_refused(given: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(merged(VALUES, GIVEN), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(VALUES, {**GIVEN, **given}), schema)


def test_runtimes_in_the_namespace_of_the_release_are_refused() -> None:
    """Two volumes and two claims would have one name each, and whoever makes Jobs would reach the server's Secret."""
    done = render(merged(GIVEN, {"runtimes": {"namespace": "tinkerscript"}}))
    assert done.returncode != 0 and "runtimes.namespace is the namespace of the release" in done.stderr


def test_every_image_has_the_version_of_the_server() -> None:
    """An image without a version, or called latest, is another one after the next build."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == SERVER
    assert VALUES["image"] == {
        "server": f"tinkerscript-server:{SERVER}",
        "runtime": f"tinkerscript-runtime:{SERVER}-cuda",
    }
    (image,) = yaml.safe_load((DOCKER / "kubernetes" / "kustomization.yaml").read_text())["images"]
    assert image == {"name": "tinkerscript-server", "newTag": SERVER}
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    for service in compose["services"].values():
        _, _, tag = service["image"].rpartition(":")
        assert tag and "latest" not in tag and "/" not in tag
