"""A real Kubernetes node on this machine, as root: containerd and a kubelet in namespaces that end with them.

The machine stays as it is: pods have networks of their own that lead nowhere, and what the two write to /run, to
/var and to /proc/sys no other process sees.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kubernetes import client, config

from console.scheduling.processes import wait_until
from launching.daemons import daemon, ports_find
from launching.dockerd import ENTRYPOINT, busybox_rootfs

START_S = 60
NODE = "localhost"  # by this name the API server finds its kubelet
NODE_PROGRAMS = ("containerd", "ctr", "runc", "unshare", "nsenter")
RUNTIME, PAUSE = "tests.local/runtime:1", "tests.local/pause:1"
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
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
"""
# The network of a pod: an address, and nothing else on it.
PLUGIN = """#!/bin/sh
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


def node_start(folder: Path, kubelet: Path, kubeconfig: Path, api_certificate: Path, daemons: ExitStack) -> None:
    """A node that takes pods. Its images are RUNTIME and PAUSE. Skips where it cannot be started."""
    if os.geteuid() != 0:
        pytest.skip("a kubelet is started by root alone")
    if missing := [program for program in NODE_PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"no Kubernetes node: {', '.join(missing)} not installed (apt: containerd runc)")
    folder.mkdir()
    daemons.callback(lambda: wait_until(_cgroups_remove, timeout_s=START_S, poll_s=0.1))
    engine = _containerd(folder, daemons)
    for name, command in ((RUNTIME, ENTRYPOINT), (PAUSE, ["/bin/sleep", "1000000"])):
        (folder / "image.tar").write_bytes(_image(name, command))
        _check(folder, _ctr(folder, "images", "import", folder / "image.tar"))
    spaces = Path("/proc") / str(engine.pid) / "ns"
    command = ["nsenter", f"--mount={spaces / 'mnt'}", f"--pid={spaces / 'pid_for_children'}", kubelet]
    command += _kubelet(folder, kubeconfig, api_certificate)
    daemons.enter_context(daemon(command, log=folder / "kubelet.log"))
    with config.new_client_from_config(str(kubeconfig)) as api:
        _check(folder, wait_until(lambda: _takes_pods(api), timeout_s=START_S, poll_s=0.2))


def container_kill(folder: Path, container: str) -> None:
    """SIGKILL for the container of that id (containerd://...), of which Kubernetes was not asked."""
    assert _ctr(folder, "tasks", "kill", "--signal=SIGKILL", container.removeprefix("containerd://"))


def _containerd(folder: Path, daemons: ExitStack) -> subprocess.Popen[bytes]:
    conf, networks = folder / "containerd.toml", folder / "cni"
    conf.write_text(CONTAINERD.format(folder=folder, pause=PAUSE))
    networks.mkdir()
    for name in ("tests", "loopback"):
        (networks / name).write_text(PLUGIN)
        (networks / name).chmod(0o755)
    network = {"cniVersion": "0.4.0", "name": "tests", "plugins": [{"type": "tests"}]}
    (networks / "10-tests.conflist").write_text(json.dumps(network))
    line = " && ".join([*_mounts(folder), f"exec containerd --config {conf}"])
    command = [*NAMESPACES, "sh", "-c", line]
    engine = daemons.enter_context(daemon(command, log=folder / "containerd.log", end_by=signal.SIGKILL))
    wait_until(lambda: _ctr(folder, "version") or engine.poll() is not None, timeout_s=START_S, poll_s=0.2)
    _check(folder, engine.poll() is None)
    return engine


def _mounts(folder: Path) -> list[str]:
    """Commands that hide the machine from what is started after them."""
    upper, work = folder / "upper", folder / "work"
    lines = ["mount -t tmpfs tmpfs /run", "mount -t tmpfs tmpfs /var/log"]
    lines.append(f"mkdir {upper} {work}")
    lines.append(f"mount -t overlay overlay -o lowerdir=/var/lib,upperdir={upper},workdir={work} /var/lib")
    for name, value in KERNEL.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        lines.append(f"mount --bind {file} /proc/sys/{name}")
    return lines


def _kubelet(folder: Path, kubeconfig: Path, api_certificate: Path) -> list[str]:
    (port,) = ports_find(1)
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
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
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
    }
    (folder / "kubelet.json").write_text(json.dumps(settings))
    address = f"unix://{folder / 'containerd.sock'}"
    return [
        f"--config={folder / 'kubelet.json'}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'pki'}",
        f"--hostname-override={NODE}",
        "--container-runtime=remote",
        f"--container-runtime-endpoint={address}",
        f"--image-service-endpoint={address}",
    ]


def _takes_pods(api: client.ApiClient) -> bool:
    nodes = client.CoreV1Api(api).list_node().items
    ready = {c.type: c.status for node in nodes for c in node.status.conditions or []}.get("Ready")
    return ready == "True" and not nodes[0].spec.taints


def _check(folder: Path, started: bool) -> None:
    if not started:
        said = [line for log in folder.glob("*.log") for line in log.read_text(errors="replace").splitlines()[-3:]]
        pytest.skip(f"a Kubernetes node does not start on this machine: {' / '.join(said)}")


def _ctr(folder: Path, *words: object) -> bool:
    command = ["ctr", f"--address={folder / 'containerd.sock'}", "--namespace=k8s.io", *map(str, words)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def _cgroups_remove() -> bool:
    """What a kubelet leaves; only empty ones go."""
    root = Path("/sys/fs/cgroup")
    found = [*root.glob("kubepods"), *root.glob("*/kubepods")]
    for kubepods in found:
        folders = [Path(path) for path, _, _ in os.walk(kubepods, topdown=False)]
        with suppress(OSError):
            for folder in folders:
                folder.rmdir()
    return not any(path.exists() for path in found)


def _image(name: str, command: list[str]) -> bytes:
    """An image of busybox, as ``docker save`` would write it."""
    layer = busybox_rootfs()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": {"Entrypoint": command},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config), "layer.tar": layer, "manifest.json": json.dumps(manifest)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            content = content if isinstance(content, bytes) else content.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
