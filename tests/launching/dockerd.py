"""A real Docker Engine for tests: the one that is there, else a private one, started as root in its
own network.
"""

import io
import json
import os
import secrets
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

from console.scheduling.processes import wait_until
from launching.daemons import daemon, folder_remove

START_S = 60
# Whatever a test wants a runtime to be: a line of shell in its environment.
ENTRYPOINT = ["/bin/sh", "-c", 'eval "$PROGRAM"']


@contextmanager
def docker_engine() -> Iterator[docker.DockerClient]:
    """A client of an engine. Skips where there is none and none can be started."""
    if (client := _client(os.environ.get("DOCKER_HOST"))) is not None:
        yield client
        client.close()
        return
    if shutil.which("dockerd") is None:
        pytest.skip(
            "no Docker Engine: nothing responds at DOCKER_HOST and dockerd is not installed (apt: docker.io)"
        )
    if os.geteuid() != 0:
        pytest.skip("no Docker Engine runs, and dockerd is started by root alone")
    folder = Path(tempfile.mkdtemp(prefix="ts-dockerd-"))
    try:
        with _dockerd(folder) as client:
            yield client
    finally:
        folder_remove(folder)


@contextmanager
def _dockerd(folder: Path) -> Iterator[docker.DockerClient]:
    address = f"unix://{folder}/docker.sock"
    command = [
        "dockerd",
        "--data-root",
        folder / "data",
        "--exec-root",
        folder / "exec",
        "--pidfile",
        folder / "pid",
    ]
    command += ["--host", address, "--userland-proxy=false"]
    line = "ip link set lo up && exec " + " ".join(str(word) for word in command)
    # Bridges and their rules stay in a network namespace that ends with the engine.
    with daemon(["unshare", "--net", "sh", "-c", line], log=folder / "dockerd.log") as engine:
        path = folder / "docker.sock"
        wait_until(
            lambda: _listens(path) or engine.poll() is not None, timeout_s=START_S, poll_s=0.2
        )
        client = _client(address) if _listens(path) else None
        if client is None:
            said = (folder / "dockerd.log").read_text(errors="replace").splitlines()[-3:]
            pytest.skip(f"dockerd does not start on this machine: {' / '.join(said)}")
        try:
            yield client
            for container in client.containers.list(all=True):
                container.remove(force=True, v=True)
        finally:
            client.close()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _client(address: str | None) -> docker.DockerClient | None:
    if address is None and not Path("/var/run/docker.sock").exists():
        return None
    try:
        return docker.DockerClient(address, timeout=20) if address else docker.from_env(timeout=20)
    except DockerException:
        return None


@contextmanager
def stub_image(client: docker.DockerClient) -> Iterator[str]:
    """An image of a few programs that runs PROGRAM: made of a static busybox, without a
    registry.
    """
    name = f"tinkerscript-stub-{secrets.token_hex(4)}"
    changes = [f"ENTRYPOINT {json.dumps(ENTRYPOINT)}"]
    client.api.import_image_from_data(
        busybox_rootfs(), repository=name, tag="latest", changes=changes
    )
    try:
        yield f"{name}:latest"
    finally:
        client.images.remove(f"{name}:latest", force=True)


def busybox_rootfs() -> bytes:
    """A tar of a root file system with a few programs. Skips where there is no busybox to make it
    of.
    """
    busybox = shutil.which("busybox")
    if busybox is None or b"/ld-linux" in Path(busybox).read_bytes():
        pytest.skip("no static busybox to make a stub image of (apt: busybox-static)")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in ("bin", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        archive.add(busybox, "bin/busybox")
        for name in (
            "sh",
            "sleep",
            "cat",
            "env",
            "id",
            "ls",
            "touch",
            "grep",
            "wget",
            "nc",
            "dd",
            "ip",
        ):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return packed.getvalue()
