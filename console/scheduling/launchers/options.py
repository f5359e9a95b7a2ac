"""The table of launchers, which of them starts runtimes, and its options: read from the environment
once, at start-up.

A variable that the chosen launcher would not use stops start-up, and so does one that it lacks.
"""

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_int, read_pairs, read_text
from console.scheduling.launchers.protocol import Resources

CHOICE = "TINKERSCRIPT_LAUNCHER"
IMAGE = "TINKERSCRIPT_RUNTIME_IMAGE"
MEMORY, CPUS = "TINKERSCRIPT_RUNTIME_MEMORY_GIB", "TINKERSCRIPT_RUNTIME_CPUS"
GPUS = ("TINKERSCRIPT_RUNTIME_GPUS", "TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB")
DEVICES, WARM = "TINKERSCRIPT_DEVICES", "TINKERSCRIPT_WARM"
KUBERNETES, KUBERNETES_NODES = "TINKERSCRIPT_KUBERNETES", "TINKERSCRIPT_KUBERNETES_NODES"
SLURM_OPTIONS = "TINKERSCRIPT_SLURM_OPTIONS"
RAY_ADDRESS, RAY_TOKEN = "TINKERSCRIPT_RAY_ADDRESS", "TINKERSCRIPT_RAY_TOKEN_FILE"
DEVICE = re.compile(r"\d{1,3}|(GPU|MIG)-[0-9A-Za-z/-]{8,70}")
LOOPBACK = ("127.", "localhost", "[::1]", "0.0.0.0")
SLURM_NOTICE_S = 90
SLURM_SIGNAL = re.compile(r"--signal=B:(?:SIG)?TERM@(\d{2,5})")


@dataclass(frozen=True)
class LauncherRow:
    """One launcher. ``docs/operations/launchers.md`` has the same variables in its table."""

    needs: tuple[str, ...] = ()  # variables without which the server does not start
    may_have: tuple[str, ...] = ()
    package: str = ""  # of Python, from the group server
    command: str = ""  # a program on this machine
    # Its runtimes are processes of this machine and of the server's own environment (a container is
    # not, even of this machine). They reach the server and the embedded store on loopback, run the
    # engine that is installed here, on the devices that are here, and append to ``runtime.log`` in
    # the session's folder.
    runs_here: bool = False
    spans_machines: bool = False  # starts one runtime on several machines

    @property
    def variables(self) -> tuple[str, ...]:
        """What it reads; any other variable of a launcher stops start-up."""
        return self.needs + self.may_have

    @property
    def names_devices(self) -> bool:
        """Whether the server hands out this machine's devices by name, which it does in one place
        alone. A cluster chooses them itself, and may serve a further place.
        """
        return DEVICES in self.variables


LAUNCHERS = {
    "process": LauncherRow(may_have=(MEMORY, CPUS, *GPUS, DEVICES, WARM), runs_here=True),
    "docker": LauncherRow(needs=(IMAGE, MEMORY), may_have=(CPUS, *GPUS, DEVICES), package="docker"),
    "kubernetes": LauncherRow(
        needs=(IMAGE, MEMORY, CPUS),
        may_have=(*GPUS, KUBERNETES, KUBERNETES_NODES),
        package="kubernetes",
        spans_machines=True,
    ),
    "slurm": LauncherRow(
        needs=(MEMORY, CPUS),
        may_have=(*GPUS, SLURM_OPTIONS),
        command="sbatch",
        spans_machines=True,
    ),
    "ray": LauncherRow(
        needs=(RAY_ADDRESS, MEMORY, CPUS), may_have=(*GPUS, RAY_TOKEN), spans_machines=True
    ),
}
VARIABLES = tuple(dict.fromkeys(name for row in LAUNCHERS.values() for name in row.variables))


@dataclass(frozen=True)
class LauncherOptions:
    """The chosen launcher and its settings."""

    name: str
    resources: Resources
    image: str = ""
    kubernetes_namespace: str = ""
    kubernetes_claim: str = ""
    kubernetes_nodes: dict[str, str] = field(default_factory=dict)
    kubernetes_context: str = ""  # of the kubeconfig file; empty: the one in force there
    slurm_options: tuple[str, ...] = ()
    ray_address: str = ""  # of the cluster's dashboard
    ray_token: str = field(default="", repr=False)
    warm: int = 0  # runtimes that wait for a session with their libraries
    # that runtimes may be given; None: all that this machine has
    devices: tuple[str, ...] | None = None

    @property
    def row(self) -> LauncherRow:
        """What the launcher needs and can do."""
        return LAUNCHERS[self.name]


def launcher_options_read(
    *, server_url: str, s3_endpoint_url: str, most: int, source: Mapping[str, str] = os.environ
) -> LauncherOptions:
    """The options in the environment, or in the variables of ``source``.

    ``server_url`` is where runtimes find the server, ``s3_endpoint_url`` the store (empty: the
    embedded one), ``most`` how many runtimes there may be. Raises ImproperlyConfigured, also when
    runtimes that have a network of their own could not reach either.
    """
    name = read_text(CHOICE, "process", among=tuple(LAUNCHERS), source=source)
    row = LAUNCHERS[name]
    for variable in VARIABLES:
        given = source.get(variable, "").strip()
        if given and variable not in row.variables:
            users = [other for other, its in LAUNCHERS.items() if variable in its.variables]
            raise ImproperlyConfigured(
                f"{variable} does nothing with {CHOICE}={name}; it is for {', '.join(users)}."
            )
        if not given and variable in row.needs:
            raise ImproperlyConfigured(f"{CHOICE}={name} needs {variable}.")
    _check_installed(name)
    if not row.runs_here:
        _check_reach(name, server_url, s3_endpoint_url)
    kubernetes = _read_kubernetes(KUBERNETES, source)
    return LauncherOptions(
        name=name,
        resources=_read_resources(row, source),
        image=read_text(IMAGE, "", source=source),
        kubernetes_namespace=kubernetes.get("namespace", "tinkerscript"),
        kubernetes_claim=kubernetes.get("claim", ""),
        kubernetes_nodes=read_pairs(KUBERNETES_NODES, form="label=value", source=source),
        kubernetes_context=kubernetes.get("context", ""),
        slurm_options=_read_slurm_options(SLURM_OPTIONS, source),
        ray_address=_read_ray_address(source),
        ray_token=_read_ray_token(source),
        devices=_read_devices(DEVICES, source),
        warm=_read_warm(WARM, most=most, source=source) if WARM in row.may_have else 0,
    )


def _read_resources(row: LauncherRow, source: Mapping[str, str]) -> Resources:
    gpus_name, gpu_memory_name = GPUS
    gpus = _read_optional(gpus_name, low=0, high=64, source=source)
    gpu_memory_bytes = _read_optional(gpu_memory_name, high=1 << 12, unit=1 << 30, source=source)
    if gpu_memory_bytes and not gpus and (gpus == 0 or not row.runs_here):
        raise ImproperlyConfigured(f"{gpu_memory_name} does nothing without {gpus_name}.")
    return Resources(
        memory_bytes=_read_optional(MEMORY, high=1 << 16, unit=1 << 30, source=source),
        cpus=_read_optional(CPUS, high=4096, source=source),
        gpus=gpus,
        gpu_memory_bytes=gpu_memory_bytes,
    )


def _read_optional(
    name: str, *, low: int = 1, high: int, unit: int = 1, source: Mapping[str, str]
) -> int | None:
    return (
        read_int(name, 0, low=low, high=high, source=source) * unit
        if source.get(name, "").strip()
        else None
    )


def slurm_notice_s(options: Sequence[str]) -> int:
    """How long before its end Slurm tells a job, in seconds: as a --signal among ``options`` says,
    or 90.

    Raises ValueError for a signal that a runtime does not know, or that does not reach it.
    """
    notice_s = SLURM_NOTICE_S
    for option in options:
        if option.startswith("--signal"):
            if not (given := SLURM_SIGNAL.fullmatch(option)):
                raise ValueError(
                    f"{option!r}: a runtime is told of its end by --signal=B:TERM@SECONDS, 10 or "
                    "more"
                )
            notice_s = int(given[1])
    return notice_s


def _read_slurm_options(name: str, source: Mapping[str, str]) -> tuple[str, ...]:
    try:
        options = shlex.split(read_text(name, "", source=source))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} cannot be read: {error}.") from None
    if bad := [word for word in options if not word.startswith("--")]:
        raise ImproperlyConfigured(f"{name}: {bad[0]!r} is not an option of the form --name=value.")
    try:
        slurm_notice_s(options)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from None
    return tuple(options)


def _read_ray_address(source: Mapping[str, str]) -> str:
    address = read_text(RAY_ADDRESS, "", source=source).rstrip("/")
    parts = urlsplit(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path):
        raise ImproperlyConfigured(
            f"{RAY_ADDRESS}={address!r}: give the address of the cluster's dashboard, such as "
            "http://ray-head:8265."
        )
    return address


def _read_ray_token(source: Mapping[str, str]) -> str:
    if not (path := read_text(RAY_TOKEN, "", source=source)):
        return ""
    try:
        token = Path(path).expanduser().read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{RAY_TOKEN}={path!r}: {error.strerror}.") from None
    if not token or not token.isascii() or len(token.split()) != 1:
        raise ImproperlyConfigured(f"{RAY_TOKEN}={path!r} holds no token: one word, as Ray has it.")
    return token


def _read_kubernetes(name: str, source: Mapping[str, str]) -> dict[str, str]:
    given = read_pairs(name, form="namespace=runtimes,claim=data,context=lab", source=source)
    if unknown := sorted(given.keys() - {"namespace", "claim", "context"}):
        raise ImproperlyConfigured(
            f"{name}: {unknown[0]!r} is no key of it; there are namespace, claim and context."
        )
    return given


def _read_devices(name: str, source: Mapping[str, str]) -> tuple[str, ...] | None:
    if not (text := read_text(name, "", source=source)):
        return None
    devices = tuple(word.strip() for word in text.split(","))
    for device in devices:
        if not DEVICE.fullmatch(device):
            raise ImproperlyConfigured(
                f"{name}: {device!r} is not an index (0) or a UUID (GPU-..., MIG-...) of a device."
            )
        if devices.count(device) > 1:
            raise ImproperlyConfigured(f"{name} names device {device} twice.")
    return devices


def _read_warm(name: str, *, most: int, source: Mapping[str, str]) -> int:
    if "=" in (given := read_text(name, "", source=source)):
        raise ImproperlyConfigured(
            f"{name}={given!r}: no runtime loads a base model before its session any more. Give "
            "the number of runtimes "
            f"that wait with their libraries for a session of any base model: {name}=1, or 0 for "
            "none."
        )
    return read_int(name, 1, low=0, high=most, source=source)


def _check_installed(name: str) -> None:
    package, command = LAUNCHERS[name].package, LAUNCHERS[name].command
    # Without an origin it is a mere folder of that name, such as our docker/.
    if package and getattr(importlib.util.find_spec(package), "origin", None) is None:
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs a package: {package}, of requirements/server.txt."
        )
    if command and shutil.which(command) is None:
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs its own commands on this machine: there is no {command}."
        )


def _check_reach(name: str, server_url: str, s3_endpoint_url: str) -> None:
    if urlsplit(server_url).netloc.startswith(LOOPBACK):
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs TINKERSCRIPT_RUNTIME_SERVER_URL or TINKERSCRIPT_LEASE_PORT and "
            "a TINKERSCRIPT_HOST "
            f"that runtimes reach: they have a network of their own, on which {server_url} is not "
            "this server."
        )
    if not s3_endpoint_url:
        raise ImproperlyConfigured(
            f"{CHOICE}={name} needs S3_ENDPOINT_URL: the embedded store serves this machine's "
            "loopback alone."
        )
