"""What kubectl makes of docker/kubernetes, alone and under a folder of an operator's own."""

import re
import shutil
import subprocess
from functools import reduce
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from console.server.metrics import RELAY_IN_FLIGHT
from launching.fake_kubernetes import VERSION
from launching.manifests import DOCKER, manifests
from tinkerscript.wire.version import VERSION as SERVER

PAGE = DOCKER.parent / "docs" / "howto" / "cluster.md"


def kustomized(folder: Path) -> dict[tuple[str, str], dict]:
    """The objects of a folder by kind and name. Skips without kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl, which has Kustomize")
    command = ["kubectl", "kustomize", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {
        (found["kind"], found["metadata"]["name"]): found
        for found in yaml.safe_load_all(done.stdout)
    }


def test_by_calls_of_the_relay_is_a_line_to_be_let_in(tmp_path: Path) -> None:
    """And web servers then follow CPU and calls, in an object that Kubernetes takes."""
    folder = shutil.copytree(DOCKER / "kubernetes", tmp_path / "kubernetes")
    whole = folder / "kustomization.yaml"
    plain, before = kustomized(folder), whole.read_text()
    whole.write_text(before.replace("# components: [relay-calls]", "components: [relay-calls]"))
    assert whole.read_text() != before
    made = kustomized(folder)
    scaled = made["HorizontalPodAutoscaler", "web"]
    kubernetes_validate.validate(scaled, VERSION, strict=True)
    by_cpu, by_calls = scaled["spec"]["metrics"]
    assert [by_cpu] == plain["HorizontalPodAutoscaler", "web"]["spec"]["metrics"]
    assert by_calls["pods"] == {
        "metric": {"name": next(iter(RELAY_IN_FLIGHT.collect())).name},
        "target": {"type": "AverageValue", "averageValue": "300"},
    }


def patches_of_the_page() -> list[dict]:
    """Those of both snippets: the second one is more of the first one's list."""
    least, more, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return yaml.safe_load(least + more)["patches"]


@pytest.mark.smoke
def test_every_patch_of_the_page_finds_its_manifest_and_what_it_replaces_or_removes() -> None:
    patches = patches_of_the_page()
    assert len(patches) >= 8
    for patch in patches:
        kinds, name = patch["target"]["kind"].split("|"), patch["target"].get("name")
        wanted = [found for found in manifests() if found["kind"] in kinds]
        wanted = [found for found in wanted if name in (None, found["metadata"]["name"])]
        assert {found["kind"] for found in wanted} == set(kinds), patch["target"]
        changes = yaml.safe_load(patch["patch"])
        if isinstance(changes, dict):
            names = {(found["kind"], found["metadata"]["name"]) for found in wanted}
            assert (changes["kind"], changes["metadata"]["name"]) in names
            continue
        for found in wanted:
            for change in changes:
                *parents, last = change["path"].removeprefix("/").split("/")
                inside = reduce(
                    lambda value, step: value[int(step) if step.isdigit() else step], parents, found
                )
                assert change["op"] == "add" or (
                    int(last) < len(inside) if last.isdigit() else last in inside
                ), change


@pytest.mark.smoke
def test_a_folder_of_ones_own_changes_what_the_page_shows_and_nothing_else(tmp_path: Path) -> None:
    """The two snippets of docs/howto/cluster.md, the second one as more patches of the first."""
    least, more, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    folder = tmp_path / "ours"
    folder.mkdir()
    shutil.copytree(DOCKER / "kubernetes", tmp_path / "tinkerscript" / "docker" / "kubernetes")
    plain = kustomized(tmp_path / "tinkerscript" / "docker" / "kubernetes")
    (folder / "kustomization.yaml").write_text(least)
    ours = kustomized(folder)
    for manifest in ours.values():
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert plain.keys() == ours.keys()
    changed = {kind for kind, name in ours if ours[kind, name] != plain[kind, name]}
    assert changed == {"ConfigMap", "Deployment", "Job", "Ingress", "PersistentVolume"}
    settings, before = (each["ConfigMap", "tinkerscript"]["data"] for each in (ours, plain))
    assert before.keys() < settings.keys() and settings["TINKERSCRIPT_LAUNCHER"] == "kubernetes"
    (rule,) = ours["Ingress", "web"]["spec"]["rules"]
    assert settings["TINKERSCRIPT_PUBLIC_URL"] == f"https://{rule['host']}"
    (container,) = ours["Deployment", "web"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.org/tinkerscript-server:{SERVER}"
    assert settings["TINKERSCRIPT_RUNTIME_IMAGE"].endswith(f":{SERVER}-cuda")
    (folder / "kustomization.yaml").write_text(least + more)
    with_more = kustomized(folder)
    assert ours.keys() - with_more.keys() == {("Ingress", "web")}
    for manifest in with_more.values():
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    pods = [
        found["spec"]["template"]["spec"]
        for found in with_more.values()
        if "template" in found.get("spec", {})
    ]
    assert len(pods) == 4 and all(pod["imagePullSecrets"] == [{"name": "registry"}] for pod in pods)
