"""The lock names a version for everything that set-up installs, so that two machines get the same."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
LOCK = "constraints.txt"
# By requirements that have an environment, or an image, of their own.
OWN_LOCKS = {
    "clients.txt": "clients.lock",
    "swift.txt": "swift.lock",
    "tinker.txt": "tinker.lock",
    "helm.txt": "helm.lock",
    "cookbook.txt": "cookbook.lock",
    "vllm-cuda.txt": "vllm-cuda.lock",
}
# The CUDA build of vLLM names its version of this one exactly.
DIFFERS = {"apache-tvm-ffi"}


def requirements(name):
    lines = [line.partition(" #")[0].strip() for line in (REQUIREMENTS / name).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_locked_to_a_version_that_it_allows():
    for path in REQUIREMENTS.glob("*.txt"):
        locked = {canonicalize_name(pin.name): pin for pin in requirements(OWN_LOCKS.get(path.name, LOCK))}
        for wanted in requirements(path.name):
            pin = locked.get(canonicalize_name(wanted.name)) or wanted
            assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), f"{path.name}: {wanted} is pinned nowhere"
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{path.name}: {wanted} does not allow {version}"


@pytest.mark.parametrize("lock", [LOCK, *OWN_LOCKS.values()])
def test_no_locked_version_is_that_of_one_build_or_file(lock):
    assert [str(pin) for pin in requirements(lock) if pin.url or "+" in str(pin.specifier)] == []


def pins(lock):
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in requirements(lock)}


def test_both_builds_of_the_engine_bring_the_same_versions():
    """What is tested on a CPU is then what runs on a GPU.

    And torch's CUDA build, which set-up gets wherever no CPU build is offered, names its version of triton exactly.
    """
    cpu, cuda = pins(LOCK), pins("vllm-cuda.lock")
    assert cuda["torch"] == cpu["torch"] and cuda["triton"] == cpu["triton"]
    assert {name for name in cpu.keys() & cuda.keys() if cpu[name] != cuda[name]} <= DIFFERS


def test_the_lock_of_the_cuda_image_covers_the_trainer():
    wanted = {canonicalize_name(pin.name) for name in ("torch.txt", "trainer.txt") for pin in requirements(name)}
    assert wanted <= pins("vllm-cuda.lock").keys()


def test_the_image_of_the_control_plane_installs_locked_versions_by_their_hashes():
    """Made anew by: make hashes"""
    lock = (REQUIREMENTS / "control-plane.lock").read_text()
    lines = [line.removesuffix(" \\") for line in lock.splitlines() if not line.startswith("#")]
    entries: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith(" "):
            pin = Requirement(line)
            hashes = entries.setdefault(canonicalize_name(pin.name), [str(pin.specifier)])
        else:
            hashes.append(re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})", line)[1])
    assert all(len(of) > 1 for of in entries.values())
    assert {name: of[0] for name, of in entries.items()}.items() <= pins(LOCK).items()
    wanted = {canonicalize_name(each.name) for each in (*requirements("server.txt"), *requirements("launchers.txt"))}
    assert wanted <= entries.keys()
    dockerfile = (REQUIREMENTS.parent / "docker" / "control-plane.Dockerfile").read_text()
    installs = re.findall(r"pip install (.*)", dockerfile)
    assert installs == ["--require-hashes --only-binary :all: -r requirements/control-plane.lock"]


def test_the_bill_of_materials_names_what_the_locks_name():
    command = [sys.executable, REQUIREMENTS / "sbom.py"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    named = {component["purl"]: component for component in document["components"]}
    for lock in (LOCK, "vllm-cuda.lock"):
        for name, version in pins(lock).items():
            assert f"pkg:pypi/{name}@{version.removeprefix('==')}" in named
    (react,) = (component for purl, component in named.items() if purl.startswith("pkg:npm/react@"))
    assert react["scope"] == "required" and len(bytes.fromhex(react["hashes"][0]["content"])) == 64
