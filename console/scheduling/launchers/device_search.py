"""Which devices this machine has, found without torch: what a setting names, else what NVIDIA's
tool or driver lists.

Devices are named as CUDA_VISIBLE_DEVICES and Docker name them: by index in the order of the PCI
bus, which is nvidia-smi's order, or by UUID where TINKERSCRIPT_DEVICES says so.
"""

import os
import re
import shutil
import subprocess
from itertools import takewhile
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from console.scheduling.launchers.options import LauncherOptions
from console.sessions.limits.devices import FOR_GPUS, build_words, engine_build

LISTING_TIMEOUT_S = 30.0  # the driver of eight devices that nothing keeps loaded takes its time
DRIVER = Path("/proc/driver/nvidia/gpus")
GPU_LINE, MIG_LINE = re.compile(r"^GPU (\d+):", re.MULTILINE), re.compile(r"^\s+MIG ", re.MULTILINE)


def devices_find(options: LauncherOptions, *, driver: Path = DRIVER) -> tuple[str, ...]:
    """The devices that runtimes of this server may be given; none where a cluster chooses them.

    TINKERSCRIPT_DEVICES, else the CUDA_VISIBLE_DEVICES of the server itself, else all that are
    there. Raises ImproperlyConfigured when they cannot be listed, or when a session is to have more
    than there are.
    """
    if not options.row.names_devices:
        return ()
    if options.row.runs_here and engine_build() != FOR_GPUS:
        _refuse_named(options)
        return ()
    found = options.devices if options.devices is not None else _devices_here(options, driver)
    wanted = options.resources.gpus or 0
    if wanted > len(found):
        raise ImproperlyConfigured(
            f"TINKERSCRIPT_RUNTIME_GPUS={wanted} gives each runtime {wanted} devices; this machine "
            f"has {len(found)} "
            f"({', '.join(found) or 'none'}). Lower it, or name the devices in "
            "TINKERSCRIPT_DEVICES."
        )
    return found


def _refuse_named(options: LauncherOptions) -> None:
    """Raise ImproperlyConfigured where a setting asks for devices that the engine here cannot
    use."""
    named = {
        "TINKERSCRIPT_RUNTIME_GPUS": options.resources.gpus,
        "TINKERSCRIPT_DEVICES": options.devices,
    }
    if asked := next((name for name, given in named.items() if given), None):
        raise ImproperlyConfigured(
            f"{asked} gives runtimes GPUs, and this environment has {build_words()}. `make up "
            "BUILD=cuda` installs the "
            f"builds for NVIDIA GPUs and runs on them; or leave {asked} out."
        )


def gpus_unused(options: LauncherOptions) -> str:
    """What to tell whoever starts a server on a machine with GPUs whose runtimes cannot use them;
    "" elsewhere."""
    if (
        not options.row.runs_here
        or engine_build() == FOR_GPUS
        or shutil.which("nvidia-smi") is None
    ):
        return ""
    try:
        found = len(_devices_here(options, DRIVER))
    except ImproperlyConfigured:
        return ""  # nobody asked for one of them
    return (
        f"{found} GPU(s) of this machine stay unused: here is {build_words()}; make up BUILD=cuda"
        if found
        else ""
    )


def _devices_here(options: LauncherOptions, driver: Path) -> tuple[str, ...]:
    if options.name == "docker" and not os.environ.get("DOCKER_HOST", "unix://").startswith(
        "unix://"
    ):
        return ()  # the engine's machine is another one
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return tuple(takewhile(_names_device, map(str.strip, visible.split(","))))
    if tool := shutil.which("nvidia-smi"):
        return _listed(tool)
    # One folder per device, named by its PCI address: as many as there are, in the order of the
    # bus.
    return tuple(str(index) for index, _ in enumerate(driver.iterdir())) if driver.is_dir() else ()


def _names_device(name: str) -> bool:
    """A number or a UUID; CUDA takes no device from the first other name on, such as -1 and
    NoDevFiles."""
    return name.isdecimal() or name.startswith(("GPU-", "MIG-"))


def _listed(tool: str) -> tuple[str, ...]:
    try:
        done = subprocess.run(
            [tool, "-L"], capture_output=True, text=True, timeout=LISTING_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImproperlyConfigured(
            f"Devices cannot be listed: {error}. Name them in TINKERSCRIPT_DEVICES."
        ) from error
    if done.returncode != 0:
        if "no devices" in (done.stdout + done.stderr).lower():
            return ()
        said = " ".join((done.stderr or done.stdout).split())
        raise ImproperlyConfigured(
            f"`nvidia-smi -L` fails: {said}. Repair the driver, or name the devices "
            "in TINKERSCRIPT_DEVICES (TINKERSCRIPT_RUNTIME_GPUS=0: runtimes use none)."
        )
    if MIG_LINE.search(done.stdout):
        raise ImproperlyConfigured(
            "A device of this machine is divided (MIG): name what runtimes may use in "
            "TINKERSCRIPT_DEVICES."
        )
    return tuple(GPU_LINE.findall(done.stdout))
