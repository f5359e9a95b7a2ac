"""Which launcher starts runtimes, and what it is told: read from the environment once, at start-up.

A variable that the chosen launcher would not use stops start-up, and so does one that it lacks.
"""

import importlib.util
import os
import shlex
import shutil
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from console.environment import read_int, read_pairs, read_text
from console.scheduling.launchers.protocol import Resources

CHOICE = "TINKERSCRIPT_LAUNCHER"
NAMES = ("process", "docker", "kubernetes", "slurm")
ENGINES = ("docker", "kubernetes", "slurm")
USED_BY = {
    "TINKERSCRIPT_RUNTIME_MEMORY_GIB": NAMES,
    "TINKERSCRIPT_RUNTIME_CPUS": ENGINES,
    "TINKERSCRIPT_RUNTIME_GPUS": ENGINES,
    "TINKERSCRIPT_RUNTIME_IMAGE": ("docker", "kubernetes"),
    "TINKERSCRIPT_DOCKER_NETWORK": ("docker",),
    "TINKERSCRIPT_KUBERNETES_NAMESPACE": ("kubernetes",),
    "TINKERSCRIPT_KUBERNETES_CLAIM": ("kubernetes",),
    "TINKERSCRIPT_KUBERNETES_NODES": ("kubernetes",),
    "TINKERSCRIPT_SLURM_OPTIONS": ("slurm",),
}
NEEDED_BY = {
    "TINKERSCRIPT_RUNTIME_MEMORY_GIB": ENGINES,
    "TINKERSCRIPT_RUNTIME_CPUS": ("kubernetes", "slurm"),
    "TINKERSCRIPT_RUNTIME_IMAGE": ("docker", "kubernetes"),
}
PACKAGES = {"docker": "docker", "kubernetes": "kubernetes"}  # Python packages: requirements/launchers.txt
LOOPBACK = ("127.", "localhost", "[::1]", "0.0.0.0")


@dataclass(frozen=True)
class LauncherOptions:
    """The chosen launcher and its settings."""

    name: str
    resources: Resources
    image: str = ""
    docker_network: str = ""
    kubernetes_namespace: str = ""
    kubernetes_claim: str = ""
    kubernetes_nodes: dict[str, str] = field(default_factory=dict)
    slurm_options: tuple[str, ...] = ()


def launcher_options_read(*, server_url: str, s3_endpoint_url: str) -> LauncherOptions:
    """The options in the environment.

    ``server_url`` is where runtimes find the server, ``s3_endpoint_url`` the store (empty: the embedded one). Raises
    ImproperlyConfigured, also when runtimes that have a network of their own could not reach either.
    """
    name = read_text(CHOICE, "process", among=NAMES)
    for variable, users in USED_BY.items():
        given = os.environ.get(variable, "").strip()
        if given and name not in users:
            raise ImproperlyConfigured(f"{variable} does nothing with {CHOICE}={name}; it is for {', '.join(users)}.")
        if not given and name in NEEDED_BY.get(variable, ()):
            raise ImproperlyConfigured(f"{CHOICE}={name} needs {variable}.")
    if name != "process":
        _check_installed(name)
        _check_reach(name, server_url, s3_endpoint_url)
    return LauncherOptions(
        name=name,
        resources=Resources(
            memory_bytes=_read_optional("TINKERSCRIPT_RUNTIME_MEMORY_GIB", high=1 << 16, unit=1 << 30),
            cpus=_read_optional("TINKERSCRIPT_RUNTIME_CPUS", high=4096),
            gpus=read_int("TINKERSCRIPT_RUNTIME_GPUS", 0, low=0, high=64),
        ),
        image=read_text("TINKERSCRIPT_RUNTIME_IMAGE", ""),
        docker_network=read_text("TINKERSCRIPT_DOCKER_NETWORK", "tinkerscript-runtimes"),
        kubernetes_namespace=read_text("TINKERSCRIPT_KUBERNETES_NAMESPACE", "tinkerscript"),
        kubernetes_claim=read_text("TINKERSCRIPT_KUBERNETES_CLAIM", ""),
        kubernetes_nodes=read_pairs("TINKERSCRIPT_KUBERNETES_NODES", form="label=value"),
        slurm_options=_read_words("TINKERSCRIPT_SLURM_OPTIONS"),
    )


def _read_optional(name: str, *, high: int, unit: int = 1) -> int | None:
    return read_int(name, 0, low=1, high=high) * unit if os.environ.get(name, "").strip() else None


def _read_words(name: str) -> tuple[str, ...]:
    try:
        words = shlex.split(read_text(name, ""))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} cannot be read: {error}.") from None
    if bad := [word for word in words if not word.startswith("--")]:
        raise ImproperlyConfigured(f"{name}: {bad[0]!r} is not an option of the form --name=value.")
    return tuple(words)


def _check_installed(name: str) -> None:
    # Without an origin it is a mere folder of that name, such as our docker/.
    if name in PACKAGES and getattr(importlib.util.find_spec(PACKAGES[name]), "origin", None) is None:
        raise ImproperlyConfigured(f"{CHOICE}={name} needs a package: run requirements/install.sh launchers.")
    if name == "slurm" and shutil.which("sbatch") is None:
        raise ImproperlyConfigured(f"{CHOICE}=slurm needs Slurm's own commands on this machine: there is no sbatch.")


def _check_reach(name: str, server_url: str, s3_endpoint_url: str) -> None:
    if urlsplit(server_url).netloc.startswith(LOOPBACK):
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs TINKERSCRIPT_RUNTIME_SERVER_URL: runtimes on a network of their own do not reach "
            f"{server_url}."
        )
    if not s3_endpoint_url:
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs S3_ENDPOINT_URL: the embedded store serves this machine's loopback alone."
        )
