"""Real Kubernetes nodes on this machine, as root: containerd and a kubelet each in namespaces that
end with them.

The machine stays as it is: pods have networks of their own that lead nowhere else, and what the two
write to /run, to /var and to /proc/sys no other process sees.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes import client, config

from console.scheduling.processes import wait_until
from launching.daemons import daemon, ports_find
from launching.kubernetes_images import BASE, PAUSE, base_write, images_write

START_S = 60
UMASK = 0o022  # a test run's may keep others out, and containers have users of their own
NODE_PROGRAMS = ("containerd", "ctr", "runc", "unshare", "nsenter")
DOMAIN = "cluster.local"
CGROUPS = Path("/sys/fs/cgroup")
# All that runs in them ends with the first of them, however that ends.
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CONTAINERD = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{folder}/{base}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
"""
# The network of a pod: an address, and nothing else on it.
ALONE = """#!/bin/sh
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' ;;
ADD) echo '{"cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
  "ips": [{"version": "4", "address": "10.244.0.2/24", "interface": 0}]}' ;;
esac
"""
# What a kubelet insists on, and would set for the whole machine.
KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


@dataclass(frozen=True)
class Place:
    """Of a node: its ``name``, by which the API server finds its kubelet where it has no
    ``address`` of its own; what connects its pods (CNI); and where they ask for names.
    """

    name: str = "localhost"
    address: str = ""
    plugin: str = ALONE
    names: str = ""


@dataclass(frozen=True)
class Node:
    """One that runs. ``engine`` is its containerd, with which all of its processes end."""

    place: Place
    engine: "subprocess.Popen[bytes]"

    def lose(self) -> None:
        """As if its power was cut: first nothing of it is heard any more, then all of it ends."""
        links = subprocess.run(
            ["ip", "-o", "link"], capture_output=True, text=True, check=True, timeout=20
        ).stdout
        for link in re.findall(rf"\b{self.place.name}-\w+", links):
            subprocess.run(["ip", "link", "set", link, "down"], check=True, timeout=20)
        self.engine.kill()


def version_read(program: Path) -> tuple[int, int]:
    """Which Kubernetes it is of: (1, 36)."""
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    major, minor = re.search(r"v(\d+)\.(\d+)", said).groups()
    return int(major), int(minor)


def node_start(
    folder: Path,
    kubelet: Path,
    kubeconfig: Path,
    api_certificate: Path,
    daemons: ExitStack,
    place: Place,
) -> Node:
    """A node that takes pods, with the images of kubernetes_images.py. Skips where it cannot be
    started.
    """
    if os.geteuid() != 0:
        pytest.skip("a kubelet is started by root alone")
    if missing := [program for program in NODE_PROGRAMS if shutil.which(program) is None]:
        pytest.skip(
            f"no Kubernetes node: {', '.join(missing)} not installed (apt: containerd runc)"
        )
    folder.mkdir()
    # Of its own: a kubelet ends what it finds there and does not know.
    cgroup = f"{folder.parent.name}-{place.name}"
    daemons.callback(
        lambda: wait_until(lambda: _cgroups_remove(cgroup), timeout_s=START_S, poll_s=0.1)
    )
    base_write(folder)
    engine = _containerd(folder, place, daemons)
    for image in images_write(folder):
        _check(folder, _ctr(folder, "images", "import", image))
        image.unlink()
    _cgroups_make(cgroup)
    spaces = Path("/proc") / str(engine.pid) / "ns"
    command = [
        "nsenter",
        f"--mount={spaces / 'mnt'}",
        f"--pid={spaces / 'pid_for_children'}",
        kubelet,
    ]
    command += _kubelet(folder, version_read(kubelet), kubeconfig, api_certificate, place, cgroup)
    daemons.enter_context(daemon(command, log=folder / "kubelet.log", umask=UMASK))
    with config.new_client_from_config(str(kubeconfig)) as api:
        _check(
            folder, wait_until(lambda: _takes_pods(api, place.name), timeout_s=START_S, poll_s=0.2)
        )
    return Node(place, engine)


def container_kill(folder: Path, container: str) -> None:
    """SIGKILL for the container of that id (containerd://...), of which Kubernetes was not
    asked.
    """
    assert _ctr(
        folder, "tasks", "kill", "--signal=SIGKILL", container.removeprefix("containerd://")
    )


def _containerd(folder: Path, place: Place, daemons: ExitStack) -> subprocess.Popen[bytes]:
    conf, networks = folder / "containerd.toml", folder / "cni"
    conf.write_text(CONTAINERD.format(folder=folder, pause=PAUSE, base=BASE))
    networks.mkdir()
    for name in ("tests", "loopback"):
        (networks / name).write_text(place.plugin)
        (networks / name).chmod(0o755)
    network = {"cniVersion": "0.4.0", "name": "tests", "plugins": [{"type": "tests"}]}
    (networks / "10-tests.conflist").write_text(json.dumps(network))
    line = " && ".join([*_mounts(folder), f"exec containerd --config {conf}"])
    command = [*NAMESPACES, "sh", "-c", line]
    engine = daemons.enter_context(
        daemon(command, log=folder / "containerd.log", end_by=signal.SIGKILL, umask=UMASK)
    )
    wait_until(
        lambda: _ctr(folder, "version") or engine.poll() is not None, timeout_s=START_S, poll_s=0.2
    )
    _check(folder, engine.poll() is None)
    return engine


def _mounts(folder: Path) -> list[str]:
    """Commands that hide the machine from what is started after them."""
    upper, work = folder / "upper", folder / "work"
    lines = ["mount -t tmpfs tmpfs /run", "mount -t tmpfs tmpfs /var/log"]
    lines.append(f"mkdir {upper} {work}")
    lines.append(
        f"mount -t overlay overlay -o lowerdir=/var/lib,upperdir={upper},workdir={work} /var/lib"
    )
    for name, value in KERNEL.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        lines.append(f"mount --bind {file} /proc/sys/{name}")
    return lines


def _kubelet(
    folder: Path,
    version: tuple[int, int],
    kubeconfig: Path,
    api_certificate: Path,
    place: Place,
    cgroup: str,
) -> list[str]:
    (port,) = ports_find(1)
    settings: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address or "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(api_certificate)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        **({"clusterDNS": [place.names], "clusterDomain": DOMAIN} if place.names else {}),
        # Where the machine has cgroups of version 1, which newer ones run on only if told so.
        **({"failCgroupV1": False} if version >= (1, 31) else {}),
    }
    (folder / "kubelet.json").write_text(json.dumps(settings))
    address = f"unix://{folder / 'containerd.sock'}"
    return [
        f"--config={folder / 'kubelet.json'}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'pki'}",
        f"--hostname-override={place.name}",
        *([f"--node-ip={place.address}"] if place.address else []),
        *(["--container-runtime=remote"] if version < (1, 24) else []),  # the only one since
        f"--container-runtime-endpoint={address}",
        f"--image-service-endpoint={address}",
    ]


def _takes_pods(api: client.ApiClient, name: str) -> bool:
    nodes = [node for node in client.CoreV1Api(api).list_node().items if node.metadata.name == name]
    ready = {c.type: c.status for node in nodes for c in node.status.conditions or []}.get("Ready")
    return ready == "True" and not nodes[0].spec.taints


def _check(folder: Path, started: bool) -> None:
    if not started:
        said = [
            line
            for log in folder.glob("*.log")
            for line in log.read_text(errors="replace").splitlines()[-3:]
        ]
        pytest.skip(f"a Kubernetes node does not start on this machine: {' / '.join(said)}")


def _ctr(folder: Path, *words: object) -> bool:
    command = [
        "ctr",
        f"--address={folder / 'containerd.sock'}",
        "--namespace=k8s.io",
        *map(str, words),
    ]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def _cgroup_roots() -> list[Path]:
    """Of version 2 one, of version 1 one for each kind of resource."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _cgroups_make(name: str) -> None:
    """Those of a node, which a kubelet does not make itself."""
    for root in _cgroup_roots():
        (root / name).mkdir()
        # version 1 begins with none, in which nothing can run
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (root / setting).exists():
                (root / name / setting).write_text((root / setting).read_text())


def _cgroups_remove(name: str) -> bool:
    """With what a kubelet leaves in them; only empty ones go."""
    found = [root / name for root in _cgroup_roots()]
    for top in found:
        folders = [Path(path) for path, _, _ in os.walk(top, topdown=False)]
        with suppress(OSError):
            for folder in folders:
                folder.rmdir()
    return not any(path.exists() for path in found)
