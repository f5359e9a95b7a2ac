"""Runtimes as containers of a Docker Engine, one each, found again by their names.

A container sees its session's folder, the base models (read only), the engine's network and nothing
else of the host: its root is read only, it has no capabilities and cannot gain any, and its memory,
processes and log are bounded.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig
from requests.exceptions import RequestException

from console.scheduling.launchers.docker_networks import LAUNCH, SESSION, RuntimeNetworks
from console.scheduling.launchers.protocol import (
    GATEWAY_PORT,
    Handle,
    Launcher,
    LauncherUnavailable,
    Resources,
    RuntimeStatus,
    SlowToEnd,
    amounts_environment,
    launch_owner,
    launch_session,
)
from console.scheduling.launchers.snapshot import Snapshot
from console.scheduling.processes import wait_until

USER = 10_001  # whom containers run as where the server is root; as the server's own user elsewhere
PIDS = 4096
TMP_BYTES = 4 << 30
TIMEOUT_S = 10
REMOVE_WAIT_S = 5.0


def engine_connect() -> docker.DockerClient:
    """The engine that DOCKER_HOST names, or the local one. Raises LauncherUnavailable."""
    try:
        return docker.from_env(timeout=TIMEOUT_S, version="auto")
    except DockerException as error:
        raise LauncherUnavailable(f"no Docker Engine responds: {error}") from error


class DockerLauncher(Launcher):
    """Containers of ``image``, on ``network`` or by it (docker_networks.py). ``read_only``: folders
    of models.

    Folders keep their paths inside the container, so that a server which is itself in a container
    must see them under the paths that the engine's host does.
    """

    name = "docker"

    def __init__(
        self,
        client: docker.DockerClient,
        *,
        image: str,
        network: str,
        resources: Resources,
        read_only: Sequence[Path] = (),
    ) -> None:
        self._client = client
        self._image = image
        self._networks = RuntimeNetworks(client, network)
        self._resources = resources
        self._read_only = list(read_only)
        self._seen = Snapshot(self._list)
        self._slow: set[str] = set()  # launches whose removal is under way for long

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        with _engine("start"):
            self._end_others(handle)
            try:
                container = self._find_or_create(handle, environment)
            except OSError:  # what the engine raises is one too
                self._networks.remove(handle["launch"])
                raise
            self._seen.forget()
            return handle | {"container": container.id}

    def others_end(self, handle: Handle) -> None:
        with _engine("others_end"):
            self._end_others(handle)

    def inspect(self, handle: Handle) -> RuntimeStatus:
        with _engine("inspect"):
            seen = self._seen.find(handle["launch"])
            if seen is None or seen["State"] in ("created", "removing"):
                return RuntimeStatus("gone")
            if seen["State"] not in ("exited", "dead"):
                return RuntimeStatus("running")
            container = self._find(handle)
        if container is None:
            return RuntimeStatus("gone")
        code = container.attrs["State"]["ExitCode"]
        # Docker writes 128 + n for signal n
        return RuntimeStatus("exited", 128 - code if 128 < code < 160 else code)

    def address(self, handle: Handle, *, port: int) -> str:
        with _engine("address"):
            seen = self._seen.find(handle["launch"])
        if seen is None or port != GATEWAY_PORT:
            return ""
        host = self._networks.address(seen)
        return f"{host}:{GATEWAY_PORT}" if host else ""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        with _engine("stop"):
            container = self._find(handle)
            if container is not None:
                self._end(container, grace_s)
            else:
                self._slow.discard(handle["launch"])
                self._networks.remove(handle["launch"])
            self._seen.forget()

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        with _engine("logs"):
            container = self._find(handle)
            if container is None or container.status == "created":
                return []
            return container.logs(tail=lines).decode(errors="replace").splitlines()

    def _find(self, handle: Handle) -> Container | None:
        try:
            return self._client.containers.get(handle["launch"])
        except NotFound:
            return None

    def _list(self) -> dict[str, dict[str, Any]]:
        self._networks.keep_joined()
        listed = self._client.api.containers(all=True, filters={"label": SESSION})
        seen = {each["Labels"][LAUNCH]: each for each in listed}
        self._networks.clear(seen)
        return seen

    def _end_others(self, handle: Handle) -> None:
        session = f"{SESSION}={launch_session(handle['launch'])}"
        for container in self._client.containers.list(
            all=True, filters={"label": session}, ignore_removed=True
        ):
            launch = container.labels[LAUNCH]
            if launch != handle["launch"] and launch_owner(launch) == launch_owner(
                handle["launch"]
            ):
                self._end(container, 0)

    def _end(self, container: Container, grace_s: float) -> None:
        launch = container.labels[LAUNCH]
        try:
            if grace_s > 0 and launch not in self._slow:
                with contextlib.suppress(NotFound):  # it was removed by hand, but not its network
                    container.stop(timeout=math.ceil(grace_s))
            # Before its container, by which it is found when this is broken off.
            self._networks.remove(launch)
            container.remove(force=True, v=True)
        except NotFound:
            pass
        except APIError as error:
            if error.status_code != 409:
                raise
            # Its removal is under way, and what runs in it may have its devices until that is done.
            # One that was slow before is only looked at: a tick of the reconciler must not wait for
            # it every time.
            wait_s = 0 if launch in self._slow else REMOVE_WAIT_S
            if not wait_until(
                lambda: self._find({"launch": launch}) is None, timeout_s=wait_s, poll_s=0.2
            ):
                self._slow.add(launch)
                slow = f"the container {launch} is slow to end; it keeps its devices until then"
                raise SlowToEnd(slow) from None
        self._slow.discard(launch)

    def _find_or_create(self, handle: Handle, environment: Mapping[str, str]) -> Container:
        """The container of the handle, started. Raises OSError."""
        container = self._find(handle)
        if container is None:
            container = self._create(handle, environment, self._networks.make(handle["launch"]))
        if container.status == "created":
            try:
                container.start()
            except APIError as error:
                container.remove(force=True, v=True)
                raise OSError(
                    f"the container could not be started: {_meaning(error, handle)}"
                ) from error
        return container

    def _create(self, handle: Handle, environment: Mapping[str, str], network: str) -> Container:
        try:
            return self._client.containers.create(
                **self._description(handle, environment) | {"network": network}
            )
        except ImageNotFound as error:
            raise OSError(
                f"the engine has no image {self._image!r}: pull or build it there first"
            ) from error
        except APIError as error:
            if error.status_code == 409 and (container := self._find(handle)):
                return container  # another call for the same handle was faster
            raise OSError(f"Docker refuses the container: {error.explanation}") from error

    def _description(self, handle: Handle, environment: Mapping[str, str]) -> dict[str, Any]:
        folder = Path(handle["folder"])
        memory_bytes = self._resources.memory_bytes
        own = {
            "HOME": str(folder),  # caches of libraries; the root is read only
            "TINKERSCRIPT_RUNTIME_LISTEN": f"0.0.0.0:{GATEWAY_PORT}",
            **amounts_environment(handle["gpus"], self._resources.cpus),
        }
        return {
            "image": self._image,
            "name": handle["launch"],
            "labels": {LAUNCH: handle["launch"], SESSION: launch_session(handle["launch"])},
            "environment": own | dict(environment),
            "working_dir": str(folder),
            "user": _user(folder),
            "volumes": [
                f"{folder}:{folder}:rw",
                *(f"{path}:{path}:ro" for path in self._read_only if path.is_dir()),
            ],
            "extra_hosts": {"host.docker.internal": "host-gateway"},
            "read_only": True,
            "tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,mode=1777,size={TMP_BYTES}"},
            # weights pass through it; what is in it counts as memory of the container
            "shm_size": memory_bytes,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": PIDS,
            "mem_limit": memory_bytes,
            "memswap_limit": memory_bytes,  # memory and swap together: no swap
            "nano_cpus": None if self._resources.cpus is None else self._resources.cpus * 10**9,
            "device_requests": _device_requests(handle["devices"]),
            "log_config": LogConfig(
                type=LogConfig.types.JSON, config={"max-size": "16m", "max-file": "4"}
            ),
            "restart_policy": {"Name": "no"},  # restarting is the reconciler's, with a new lease
        }


def _device_requests(devices: list[str]) -> list[DeviceRequest]:
    """By name: a count would always be the engine's first ones."""
    return (
        [DeviceRequest(device_ids=devices, capabilities=[["gpu", "compute", "utility"]])]
        if devices
        else []
    )


def _meaning(error: APIError, handle: Handle) -> str:
    """What the engine says. Of GPUs that it has no driver for it only names the request."""
    if not handle["gpus"] or "device driver" not in str(error.explanation):
        return str(error.explanation)
    wanted = (
        f"{handle['gpus']} GPUs were asked for, and the engine's machine offers none to containers"
    )
    return f"{wanted} (is the NVIDIA Container Toolkit installed there?): {error.explanation}"


def _user(folder: Path) -> str:
    """Make the session's folder; who may write to it, as "uid:gid"."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.getuid() != 0:
        return f"{os.getuid()}:{os.getgid()}"
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    return f"{USER}:{USER}"


@contextlib.contextmanager
def _engine(doing: str) -> Iterator[None]:
    """Turn no response, or an error that is not about our container, into LauncherUnavailable."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise LauncherUnavailable(f"Docker Engine, {doing}: {error}") from error
