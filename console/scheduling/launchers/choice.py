"""The launcher that the settings name."""

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable
from console.scheduling.launchers.warm import WarmRuntimes
from console.sessions.models import Session
from tinkerscript.wire.config import HERE


class OtherLauncher(Exception):
    """Runtimes are there that another launcher started: this one cannot see, judge or end them."""


def launcher_get() -> Launcher:
    """The chosen launcher. Raises OtherLauncher, LauncherUnavailable when its engine does not
    answer.
    """
    options: LauncherOptions = settings.LAUNCHER
    others = Session.objects.filter(launch_handle__isnull=False, place=HERE).exclude(
        launcher=options.name
    )
    if found := sorted(set(others.values_list("launcher", flat=True))):
        raise OtherLauncher(
            f"{others.count()} runtimes were started with TINKERSCRIPT_LAUNCHER={found[0]}. Start "
            "the server with that "
            f"once more and stop it (or end those sessions), then change to {options.name}."
        )
    return _make(options)


def launchers_elsewhere() -> dict[str, Launcher]:
    """The launchers of the further places by name. Raises OtherLauncher, LauncherUnavailable where
    one has no cluster.

    A cluster that is configured and does not respond is not looked for here: its sessions wait,
    with that reason.
    """
    for place in settings.PLACES.values():
        others = Session.objects.filter(launch_handle__isnull=False, place=place.name).exclude(
            launcher=place.options.name
        )
        if found := others.values_list("launcher", flat=True).first():
            raise OtherLauncher(
                f"Place {place.name} has runtimes that the launcher {found} started. Give it that "
                "launcher "
                f"once more and end those sessions, then change to {place.options.name}."
            )
    return {place.name: _make(place.options) for place in settings.PLACES.values()}


def session_launcher(session: Session, launchers: Mapping[str, Launcher]) -> Launcher:
    """Of the place where it runs. Raises LauncherUnavailable for one that the settings do not name
    any more.
    """
    if session.place not in launchers:
        raise LauncherUnavailable(
            f"its place is {session.place}, which TINKERSCRIPT_PLACES does not name"
        )
    return launchers[session.place]


def warm_get(launcher: Launcher) -> WarmRuntimes | None:
    """The runtimes that TINKERSCRIPT_WARM asks for."""
    wanted = settings.LAUNCHER.warm
    if not wanted:
        return None
    assert isinstance(launcher, ProcessLauncher), "the settings take it for no other"
    return WarmRuntimes(launcher, wanted, settings.DATA / "warm")


def _make(options: LauncherOptions) -> Launcher:
    """A client library that one launcher alone needs is imported for that one alone."""
    if options.name == "docker":
        from console.scheduling.launchers.docker import DockerLauncher, engine_connect
        from console.scheduling.launchers.docker_networks import DOCKER_NETWORK

        return DockerLauncher(
            engine_connect(),
            image=options.image,
            network=DOCKER_NETWORK,
            resources=options.resources,
            read_only=model_folders(),
        )
    if options.name == "kubernetes":
        from console.scheduling.launchers.kubernetes.launcher import (
            KubernetesLauncher,
            cluster_connect,
        )

        return KubernetesLauncher(
            cluster_connect(options.kubernetes_context), options=options, data=settings.DATA
        )
    if options.name == "slurm":
        from console.scheduling.launchers.slurm import SlurmLauncher

        return SlurmLauncher(options=options.slurm_options, resources=options.resources)
    if options.name == "ray":
        from console.scheduling.launchers.ray import RayLauncher

        return RayLauncher(
            options.ray_address, token=options.ray_token, resources=options.resources
        )
    if options.name == "process":
        bounds = options.resources
        return ProcessLauncher(memory_bytes=bounds.memory_bytes, cpus=bounds.cpus)
    raise ValueError(f"the launcher {options.name} has a row in the table and no branch here")


def model_folders() -> list[Path]:
    """Every folder of this machine that base models are read from."""
    return [settings.DATA / "models", *(Path(folder) for folder in settings.EXTRA_MODELS.values())]
