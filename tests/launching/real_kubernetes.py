"""A real Kubernetes for tests: etcd, API, controllers, scheduler and maybe a node, on loopback, in
a folder of its own.

Or one that is there: TESTS_KUBECONFIG names its kubeconfig, whose user makes and removes namespaces
and nodes in it.
"""

import json
import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from console.scheduling.processes import wait_until
from launching.daemons import daemon, folder_remove, ports_find
from launching.kubernetes_keys import certificate_write, key_write
from launching.kubernetes_node import Node, Place, node_start, version_read

START_S = 90
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
BUILT, KUBECONFIG = "TESTS_KUBERNETES_BIN", "TESTS_KUBECONFIG"
CLAIM = "data"
# What Jobs, Deployments, their objects and a node need; the rest is for other things and clouds.
CONTROLLERS = (
    "job",
    "garbagecollector",
    "namespace",
    "serviceaccount",
    "serviceaccount-token",
    "resourcequota",
)
CONTROLLERS += ("persistentvolume-binder", "nodelifecycle", "endpointslice")
CONTROLLERS += ("deployment", "replicaset", "horizontalpodautoscaling")
# It looks every 15 s otherwise, and for minutes not at the CPU of pods that have just begun.
SCALING = ("sync-period=1s", "initial-readiness-delay=0s", "cpu-initialization-period=0s")
# Parts of those that came later.
SINCE_1_29 = ("taint-eviction-controller",)


@contextmanager
def real_kubernetes() -> Iterator[Path]:
    """A kubeconfig of its administrator. Skips where there is none and none can be started."""
    if path := os.environ.get(KUBECONFIG):
        yield Path(path)
        return
    if not os.environ.get(BUILT):
        pytest.skip(
            f"no Kubernetes: neither {KUBECONFIG} nor {BUILT} is set (tests/launching/kubernetes.sh builds one)"
        )
    with own_kubernetes() as kubeconfig:
        yield kubeconfig


@contextmanager
def own_kubernetes(*, node: bool = False) -> Iterator[Path]:
    """The kubeconfig of one that lives as long as the block, if asked with a node. Skips where it
    cannot be started.
    """
    with kubernetes_of([Place()] if node else []) as (kubeconfig, _, _):
        yield kubeconfig


@contextmanager
def kubernetes_of(
    places: Sequence[Place], *, later: int = 0
) -> Iterator[tuple[Path, list[Node], Callable[[], Node]]]:
    """The same with a node at each of ``places``, in folders of their names beside the kubeconfig.

    Those at the last ``later`` of them are started by the function that is returned, one by one.
    """
    built = os.environ.get(BUILT)
    if not built:
        pytest.skip(
            f"no Kubernetes of our own: {BUILT} is not set (tests/launching/kubernetes.sh builds one)"
        )
    wanted = (*PROGRAMS, "kubelet") if places else PROGRAMS
    if missing := [name for name in wanted if not os.access(Path(built) / name, os.X_OK)]:
        pytest.skip(
            f"no Kubernetes: {BUILT} lacks {', '.join(missing)} (tests/launching/kubernetes.sh builds them)"
        )
    folder = Path(tempfile.mkdtemp(prefix="ts-kubernetes-"))
    try:
        with ExitStack() as daemons:
            kubeconfig = _start(folder, Path(built), daemons, [place.address for place in places])
            same = (Path(built) / "kubelet", kubeconfig, folder / "api.crt", daemons)
            left, nodes = list(places), list[Node]()

            def node_add() -> Node:
                place = left.pop(0)
                nodes.append(node_start(folder / place.name, *same, place))
                return nodes[-1]

            while len(left) > later:
                node_add()
            yield kubeconfig, nodes, node_add
    finally:
        folder_remove(folder)


@contextmanager
def namespace_make(api: client.ApiClient) -> Iterator[str]:
    """A namespace of its own, as strict as that of docker/kubernetes, removed with all that is in
    it.
    """
    core, name = client.CoreV1Api(api), f"tinkerscript-tests-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": name, "labels": labels}})
    try:
        yield name
    finally:
        core.delete_namespace(name)


def volume_make(api: client.ApiClient, namespace: str, folder: Path) -> None:
    """A folder of the only node, claimed as CLAIM."""
    name, size = f"tests-{namespace}", {"storage": "1Gi"}
    same = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    place = {"hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}
    core = client.CoreV1Api(api)
    core.create_persistent_volume(
        {"metadata": {"name": name}, "spec": same | place | {"capacity": size}}
    )
    claim = same | {"volumeName": name, "resources": {"requests": size}}
    core.create_namespaced_persistent_volume_claim(
        namespace, {"metadata": {"name": CLAIM}, "spec": claim}
    )


def _start(folder: Path, built: Path, daemons: ExitStack, addresses: Sequence[str]) -> Path:
    started: dict[Path, subprocess.Popen[bytes]] = {}

    def start(name: str, options: list[str]) -> None:
        log = folder / f"{name}.log"
        started[log] = daemons.enter_context(daemon([built / name, *options], log=log))

    store, peers, api, controllers, scheduler = ports_find(5)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key_write(folder / "accounts.key")
    certificate_write(folder / "api.crt", folder / "api.key")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        _kubeconfig(f"https://127.0.0.1:{api}", folder / "api" / "apiserver.crt", token)
    )
    kubeconfig.chmod(0o600)

    start("etcd", _etcd(folder, store, peers))
    start(
        "kube-apiserver",
        _api(
            folder, store, api, kubelets="InternalIP" if any(addresses) else "Hostname,InternalIP"
        ),
    )
    _wait_ready(kubeconfig, started)
    same = ["--bind-address=127.0.0.1", f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    accounts = f"--service-account-private-key-file={folder / 'accounts.key'}"
    named = CONTROLLERS + (
        SINCE_1_29 if version_read(built / "kube-controller-manager") >= (1, 29) else ()
    )
    several = [accounts, f"--controllers={','.join(named)}", f"--secure-port={controllers}"]
    several += [f"--horizontal-pod-autoscaler-{option}" for option in SCALING]
    start("kube-controller-manager", [*same, *several, f"--cert-dir={folder / 'controllers'}"])
    start(
        "kube-scheduler",
        [*same, f"--secure-port={scheduler}", f"--cert-dir={folder / 'scheduler'}"],
    )
    return kubeconfig


def _etcd(folder: Path, port: int, peers: int) -> list[str]:
    own, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={own}",
        f"--advertise-client-urls={own}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def _api(folder: Path, store: int, port: int, *, kubelets: str) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'api'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # some clusters have it, so rights must do
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        f"--kubelet-client-certificate={folder / 'api.crt'}",
        f"--kubelet-client-key={folder / 'api.key'}",
        f"--kubelet-preferred-address-types={kubelets}",
    ]


def _wait_ready(kubeconfig: Path, started: dict[Path, subprocess.Popen[bytes]]) -> None:
    def is_over() -> bool:
        return any(program.poll() is not None for program in started.values()) or _answers(
            kubeconfig
        )

    if not wait_until(is_over, timeout_s=START_S, poll_s=0.2) or not _answers(kubeconfig):
        said = [
            line for log in started for line in log.read_text(errors="replace").splitlines()[-3:]
        ]
        pytest.skip(f"Kubernetes does not start on this machine: {' / '.join(said)}")


def _answers(kubeconfig: Path) -> bool:
    try:
        with config.new_client_from_config(str(kubeconfig)) as api:
            return (
                api.call_api("GET", f"{api.configuration.host}/readyz", _request_timeout=25).status
                == 200
            )
    except (
        ConfigException,
        ApiException,
        HTTPError,
    ):  # ConfigException: its certificate is not there yet
        return False


def _kubeconfig(server: str, certificate: Path, token: str) -> str:
    """YAML is a superset of JSON."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "own",
                    "cluster": {"server": server, "certificate-authority": str(certificate)},
                }
            ],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "admin"}}],
            "current-context": "own",
        }
    )
