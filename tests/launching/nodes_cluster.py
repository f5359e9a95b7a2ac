"""A real Kubernetes of several nodes on this machine, and what a server outside of its pods needs
to use it.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from console.scheduling.launchers.kubernetes.manifests import USER
from console.scheduling.launchers.kubernetes.pods import pod_index
from launching.kubernetes_images import PRODUCT, of_checkout
from launching.kubernetes_network import GATEWAY, names_served, own_network, places_make
from launching.kubernetes_node import DOMAIN, Node, version_read
from launching.real_kubernetes import BUILT, CLAIM, kubernetes_of, namespace_make, volume_make

OLDEST = (1, 24)  # with Indexed Jobs as they are now
# The server is of the user that runtimes have there, and may read what root has installed.
AS_RUNTIMES = (
    'mount --bind "$0" /etc/resolv.conf && exec setpriv --reuid={user} --regid={user} --clear-groups'
    ' --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"'
)


@dataclass
class NodesCluster:
    """``enter`` is put before the command of a server, which then finds pods by their names.
    ``node_add`` starts one of the spare nodes.
    """

    kubeconfig: Path
    api: client.ApiClient
    namespace: str
    nodes: list[Node]
    enter: list[str]
    node_add: Callable[[], Node]

    def settings(self) -> dict[str, str]:
        """Of a server whose runtimes are pods here."""
        return {
            "TINKERSCRIPT_LAUNCHER": "kubernetes",
            "TINKERSCRIPT_RUNTIME_IMAGE": of_checkout(PRODUCT),
            "TINKERSCRIPT_KUBERNETES": f"namespace={self.namespace},claim={CLAIM}",
            "KUBECONFIG": str(self.kubeconfig),
        }

    def pods(self) -> list[Any]:
        """That are there, in the order of their indexes."""
        return sorted(
            client.CoreV1Api(self.api).list_namespaced_pod(self.namespace).items, key=pod_index
        )

    def node_of(self, pod: Any) -> Node:
        (node,) = [node for node in self.nodes if node.place.name == pod.spec.node_name]
        return node


@contextmanager
def nodes_cluster(count: int, data: Path, *, spare: int = 0) -> Iterator[NodesCluster]:
    """The calling thread is in its network meanwhile. ``data`` is what its claim holds. Skips where
    it cannot be.

    ``spare`` more nodes can be started later.
    """
    built = os.environ.get(BUILT)
    if not built:
        pytest.skip(
            f"no Kubernetes of several nodes: {BUILT} is not set (tests/launching/kubernetes.sh builds one)"
        )
    if (version := version_read(Path(built) / "kubelet")) < OLDEST:
        pytest.skip(
            f"{BUILT} has Kubernetes {'.'.join(map(str, version))}, which has no Indexed Jobs of today (1.24)"
        )
    with tempfile.TemporaryDirectory(prefix="ts-nodes-") as folder, own_network():
        places = places_make(Path(folder), count + spare)
        resolver = Path(folder) / "resolv.conf"
        resolver.write_text(f"nameserver {GATEWAY}\nsearch {DOMAIN}\noptions ndots:5\n")
        with (
            kubernetes_of(places, later=spare) as (kubeconfig, nodes, node_add),
            config.new_client_from_config(str(kubeconfig)) as api,
            names_served(api),
            namespace_make(api) as namespace,
        ):
            data.mkdir(exist_ok=True)
            subprocess.run(["chown", "-R", f"{USER}:{USER}", data], check=True, timeout=60)
            volume_make(api, namespace, data)
            enter = ["unshare", "--mount", "sh", "-c", AS_RUNTIMES.format(user=USER), str(resolver)]
            yield NodesCluster(kubeconfig, api, namespace, nodes, enter, node_add)
