"""A network for a Kubernetes of several nodes, of which the machine itself sees nothing, and names
for its pods.

Nodes have addresses on one bridge, to which each pod is connected too. What the cluster's own
programs need is on loopback within that network.
"""

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from launching.kubernetes_node import DOMAIN, Place

CLONE_NEWNET = 0x40000000
BRIDGE, GATEWAY = "pods", "10.244.0.1"
COMMANDS = (
    "ip link set lo up",
    f"ip link add {BRIDGE} type bridge",
    f"ip addr add {GATEWAY}/24 dev {BRIDGE}",
    f"ip link set {BRIDGE} up",
)
FIRST_POD = 100
# CNI: a pair of links, one end on the bridge, the other in the pod. They go with the pod's network.
PLUGIN = """#!/bin/sh
set -e
case "$CNI_COMMAND" in
VERSION) echo '{{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}}' ;;
ADD)
  if [ "$CNI_IFNAME" = lo ]; then
    nsenter --net="$CNI_NETNS" ip link set lo up
    echo '{{"cniVersion": "0.4.0", "ips": [{{"version": "4", "address": "127.0.0.1/8"}}]}}'
    exit 0
  fi
  exec 9>{counter}.lock
  flock 9
  number=$(($(cat {counter}) + 1))
  echo $number >{counter}
  link={name}-$number
  ip link add $link type veth peer name "$CNI_IFNAME" netns "$CNI_NETNS"
  ip link set $link master {bridge} up
  nsenter --net="$CNI_NETNS" ip addr add 10.244.0.$number/24 dev "$CNI_IFNAME"
  nsenter --net="$CNI_NETNS" ip link set "$CNI_IFNAME" up
  nsenter --net="$CNI_NETNS" ip route add default via {gateway}
  echo '{{"cniVersion": "0.4.0", "interfaces": [{{"name": "'$CNI_IFNAME'", "sandbox": "'"$CNI_NETNS"'"}}],
    "ips": [{{"version": "4", "address": "10.244.0.'$number'/24", "interface": 0}}]}}' ;;
esac
"""
A, AAAA = 1, 28
NO_SUCH_NAME, FAILED = 3, 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_network() -> Iterator[None]:
    """The calling thread, and all that it starts in the block, in that network; other threads stay
    where they are.

    Skips where it cannot be made.
    """
    if os.geteuid() != 0:
        pytest.skip("a network is made by root alone")
    with open("/proc/thread-self/ns/net") as before:
        if _libc.unshare(CLONE_NEWNET):
            pytest.skip(f"no network of our own: {os.strerror(ctypes.get_errno())}")
        try:
            for command in COMMANDS:
                made = subprocess.run(
                    command.split(), capture_output=True, text=True, timeout=20, check=False
                )
                if made.returncode:
                    pytest.skip(f"no network of our own: {command}: {made.stderr.strip()}")
            yield
        finally:
            if _libc.setns(before.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "the thread does not find back to its network")


def places_make(folder: Path, count: int) -> list[Place]:
    """Of so many nodes in this thread's network, which count their pods in ``folder``."""
    counter = folder / "pods"
    counter.write_text(f"{FIRST_POD}\n")
    places = []
    for number in range(1, count + 1):
        name, address = f"n{number}", f"10.244.0.{number + 10}"
        subprocess.run(
            ["ip", "addr", "add", f"{address}/24", "dev", BRIDGE], check=True, timeout=20
        )
        plugin = PLUGIN.format(counter=counter, name=name, bridge=BRIDGE, gateway=GATEWAY)
        places.append(Place(name=name, address=address, plugin=plugin, names=GATEWAY))
    return places


@contextmanager
def names_served(api: client.ApiClient) -> Iterator[None]:
    """DNS for pods at GATEWAY, as the headless Services of the cluster have them
    (EndpointSlices).
    """
    discovery = client.DiscoveryV1Api(api)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as served:
        served.bind((GATEWAY, 53))
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                query, peer = served.recvfrom(4096)
                with suppress(OSError):
                    served.sendto(_response(query, discovery), peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            served.sendto(b"", (GATEWAY, 53))
            thread.join(20)


def _response(query: bytes, discovery: client.DiscoveryV1Api) -> bytes:
    """RFC 1035: one question, and the addresses of that name."""
    if len(query) < 17:
        return b""
    end = query.index(0, 12) + 5
    name, kind = _name(query), int.from_bytes(query[end - 4 : end - 2])
    try:
        found, code = _addresses(name, discovery), 0
    except (ApiException, HTTPError):
        found, code = [], FAILED
    if not found and not code:
        code = NO_SUCH_NAME
    said = [socket.inet_aton(address) for address in found] if kind == A else []
    head = query[:2] + (0x8580 | code).to_bytes(2) + bytes([0, 1, 0, len(said), 0, 0, 0, 0])
    # for one second
    records = [b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04" + address for address in said]
    return head + query[12:end] + b"".join(records)


def _name(query: bytes) -> str:
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode("ascii", "replace"))
        place += length + 1
    return ".".join(labels).lower()


def _addresses(name: str, discovery: client.DiscoveryV1Api) -> list[str]:
    """HOST.SERVICE.NAMESPACE.svc.DOMAIN, and without the host all of that Service."""
    parts = name.removesuffix(f".svc.{DOMAIN}").split(".")
    if not name.endswith(f".svc.{DOMAIN}") or len(parts) not in (2, 3):
        return []
    selector = f"kubernetes.io/service-name={parts[-2]}"
    slices = discovery.list_namespaced_endpoint_slice(
        parts[-1], label_selector=selector, _request_timeout=20
    ).items
    ready = [
        each
        for found in slices
        for each in found.endpoints or []
        if each.conditions.ready is not False
    ]
    hosts = ready if len(parts) == 2 else [each for each in ready if each.hostname == parts[0]]
    return [address for each in hosts for address in each.addresses]
