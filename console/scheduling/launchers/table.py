"""The launchers: what each needs, what it may have besides, and what it can do."""

from dataclasses import dataclass

IMAGE = "TINKERSCRIPT_RUNTIME_IMAGE"
MEMORY, CPUS = "TINKERSCRIPT_RUNTIME_MEMORY_GIB", "TINKERSCRIPT_RUNTIME_CPUS"
GPUS = ("TINKERSCRIPT_RUNTIME_GPUS", "TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB")
DEVICES, WARM = "TINKERSCRIPT_DEVICES", "TINKERSCRIPT_WARM"
KUBERNETES, KUBERNETES_NODES = "TINKERSCRIPT_KUBERNETES", "TINKERSCRIPT_KUBERNETES_NODES"
SLURM_OPTIONS = "TINKERSCRIPT_SLURM_OPTIONS"
RAY_ADDRESS, RAY_TOKEN = "TINKERSCRIPT_RAY_ADDRESS", "TINKERSCRIPT_RAY_TOKEN_FILE"


@dataclass(frozen=True)
class LauncherRow:
    """One launcher. ``docs/operations/launchers.md`` has the same variables in its table."""

    needs: tuple[str, ...] = ()  # variables without which the server does not start
    may_have: tuple[str, ...] = ()
    package: str = ""  # of Python, from the group server
    command: str = ""  # a program on this machine
    # Its runtimes run on machines of their own: it may serve a further place.
    is_cluster: bool = True
    shares_loopback: bool = False  # with the server: they reach it and the embedded store there
    spans_machines: bool = False  # starts one runtime on several machines

    @property
    def variables(self) -> tuple[str, ...]:
        """What it reads; any other variable of a launcher stops start-up."""
        return self.needs + self.may_have

    @property
    def names_devices(self) -> bool:
        """Whether the server hands out devices by name; a cluster chooses them itself."""
        return DEVICES in self.variables


LAUNCHERS = {
    "process": LauncherRow(
        may_have=(MEMORY, CPUS, *GPUS, DEVICES, WARM), is_cluster=False, shares_loopback=True
    ),
    "docker": LauncherRow(
        needs=(IMAGE, MEMORY), may_have=(CPUS, *GPUS, DEVICES), package="docker", is_cluster=False
    ),
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
