"""The Kubernetes launcher and the manifests of docker/kubernetes on a real control plane.

Pods wait for a node with a label that no node has, or are placed on one that has no kubelet.
"""

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes import client, config, utils
from kubernetes.client.exceptions import ApiException
from kubernetes.config import incluster_config

from console.scheduling.launchers.kubernetes.launcher import KubernetesLauncher, cluster_connect
from console.scheduling.launchers.kubernetes.manifests import GPU, object_name
from console.scheduling.launchers.kubernetes.pods import pod_index
from console.scheduling.launchers.protocol import Handle, RuntimeStatus
from console.scheduling.processes import wait_until
from launching.backends import kubernetes_launcher
from launching.real_kubernetes import namespace_make, real_kubernetes

WAIT_S = 30
MANIFESTS = Path(__file__).resolve().parents[3] / "docker" / "kubernetes"
NOWHERE = {"tests.tinkerscript/node": "nowhere"}
ENVIRONMENT = {"TINKERSCRIPT_LEASE": "tml-ls-x"}


@pytest.fixture(scope="module")
def admin() -> Iterator[client.ApiClient]:
    with real_kubernetes() as kubeconfig, config.new_client_from_config(str(kubeconfig)) as api:
        yield api


@pytest.fixture
def namespace(admin: client.ApiClient) -> Iterator[str]:
    with namespace_make(admin) as name:
        yield name


def launcher_of(api: client.ApiClient, namespace: str, **options: object) -> KubernetesLauncher:
    return kubernetes_launcher(
        api, **({"kubernetes_namespace": namespace, "kubernetes_nodes": NOWHERE} | options)
    )


@pytest.fixture
def launcher(admin: client.ApiClient, namespace: str) -> KubernetesLauncher:
    return launcher_of(admin, namespace)


def handle_of(launcher: KubernetesLauncher, session_id: str = "", gpus: int = 0) -> Handle:
    session_id = session_id or f"ses_{secrets.token_hex(8)}"
    folder = Path("/data/runtimes") / session_id
    return launcher.new_handle(
        session_id=session_id, instance_id="0123abcd", folder=folder, gpus=gpus
    )


def start(launcher: KubernetesLauncher, fresh: Handle | None = None) -> Handle:
    return launcher.start(fresh or handle_of(launcher), environment=ENVIRONMENT)


def made_for(api: client.ApiClient, namespace: str, handle: Handle) -> dict[str, Any]:
    """Every object in the namespace that carries the launch's label, by kind; of each kind one at
    most.
    """
    core, labelled = (
        client.CoreV1Api(api),
        {"label_selector": f"tinkerscript/launch={handle['launch']}"},
    )
    lists = {
        "Job": client.BatchV1Api(api).list_namespaced_job,
        "Pod": core.list_namespaced_pod,
        "Secret": core.list_namespaced_secret,
        "Service": core.list_namespaced_service,
        "NetworkPolicy": client.NetworkingV1Api(api).list_namespaced_network_policy,
    }
    found = {kind: listing(namespace, **labelled).items for kind, listing in lists.items()}
    assert all(len(objects) <= 1 for objects in found.values()), found
    return {kind: objects[0] for kind, objects in found.items() if objects}


def is_said(launcher: KubernetesLauncher, handle: Handle, words: str) -> bool:
    return wait_until(
        lambda: words in launcher.inspect(handle).reason, timeout_s=WAIT_S, poll_s=0.1
    )


def test_a_start_makes_five_objects_and_a_stop_leaves_none_of_them(
    admin, namespace, launcher
) -> None:
    handle = start(launcher)
    assert wait_until(lambda: "Pod" in made_for(admin, namespace, handle), timeout_s=WAIT_S)
    made = made_for(admin, namespace, handle)
    assert set(made) == {"Job", "Pod", "Secret", "Service", "NetworkPolicy"}
    job = made.pop("Job")
    for kind, owned in made.items():
        assert [owner.uid for owner in owned.metadata.owner_references] == [job.metadata.uid], kind
    assert handle["uid"] == job.metadata.uid
    launcher.stop(handle, grace_s=1)
    assert launcher.inspect(handle) == RuntimeStatus("gone")
    assert wait_until(
        lambda: made_for(admin, namespace, handle) == {}, timeout_s=WAIT_S, poll_s=0.1
    )
    launcher.stop(handle, grace_s=1)


def test_a_runtime_without_a_node_waits_with_the_schedulers_words_and_has_no_log(launcher) -> None:
    handle = start(launcher)
    assert is_said(launcher, handle, "nodes")
    status = launcher.inspect(handle)
    assert status.state == "waiting" and status.reason.startswith("Kubernetes: "), status
    assert launcher.logs(handle, lines=5) == []
    launcher.stop(handle, grace_s=0)


def test_two_starts_of_one_handle_at_the_same_time_make_one_runtime(
    admin, namespace, launcher
) -> None:
    fresh, started = handle_of(launcher), []
    others = [launcher_of(admin, namespace) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda other=other: started.append(start(other, fresh)))
        for other in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(started) == 4 and all(handle == started[0] for handle in started)
    assert wait_until(lambda: len(made_for(admin, namespace, fresh)) == 5, timeout_s=WAIT_S)
    launcher.stop(fresh, grace_s=0)


def test_what_a_dead_server_left_of_a_start_never_runs_and_is_finished_by_the_next(
    admin, namespace, launcher, monkeypatch
) -> None:
    fresh = handle_of(launcher)
    monkeypatch.setattr(
        client.BatchV1Api,
        "patch_namespaced_job",
        lambda *_, **__: (_ for _ in ()).throw(SystemExit),
    )
    with pytest.raises(SystemExit):
        start(launcher, fresh)

    monkeypatch.undo()
    later = start(launcher)
    assert wait_until(
        lambda: "Pod" in made_for(admin, namespace, later), timeout_s=WAIT_S, poll_s=0.1
    )
    assert "Pod" not in made_for(admin, namespace, fresh), (
        "the Job controller, which made the later one's, made this too"
    )
    successor = launcher_of(admin, namespace)
    assert successor.inspect(fresh) == RuntimeStatus("gone")
    start(successor, fresh)
    assert successor.inspect(fresh).state == "waiting"
    assert wait_until(lambda: "Pod" in made_for(admin, namespace, fresh), timeout_s=WAIT_S)
    for handle in (fresh, later):
        successor.stop(handle, grace_s=0)


def test_a_start_ends_what_an_older_lease_left_and_nothing_else(admin, namespace, launcher) -> None:
    session_id = f"ses_{secrets.token_hex(8)}"
    orphan, neighbour = start(launcher, handle_of(launcher, session_id)), start(launcher)
    handle = start(launcher_of(admin, namespace), handle_of(launcher, session_id))
    assert launcher_of(admin, namespace).inspect(orphan) == RuntimeStatus("gone")
    assert wait_until(
        lambda: made_for(admin, namespace, orphan) == {}, timeout_s=WAIT_S, poll_s=0.1
    )
    for alive in (handle, neighbour):
        assert launcher.inspect(alive).state == "waiting"
        launcher.stop(alive, grace_s=0)


def test_what_a_quota_forbids_and_what_is_malformed_is_an_os_error_with_kubernetes_own_words(
    admin, namespace
) -> None:
    core, hard = client.CoreV1Api(admin), {"count/jobs.batch": "0"}
    with pytest.raises(OSError, match='refuses the Job: Job.batch "ts-ses-.*nodeSelector'):
        start(launcher_of(admin, namespace, kubernetes_nodes={"label": "no label's value!"}))
    core.create_namespaced_resource_quota(
        namespace, {"metadata": {"name": "none"}, "spec": {"hard": hard}}
    )
    assert wait_until(
        lambda: core.read_namespaced_resource_quota("none", namespace).status.hard == hard,
        timeout_s=WAIT_S,
    )
    launcher = launcher_of(admin, namespace)
    with pytest.raises(OSError, match='refuses the Job: jobs.batch "ts-ses-.*exceeded quota'):
        start(launcher)


@contextmanager
def node_make(admin: client.ApiClient, capacity: dict[str, str]) -> Iterator[str]:
    """A node that takes pods and never runs them: it has no kubelet."""
    core, name = client.CoreV1Api(admin), f"tests-{secrets.token_hex(4)}"
    core.create_node({"metadata": {"name": name, "labels": {"tests.tinkerscript/node": name}}})
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 9}},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Tests", "message": "it says so"}
        ],
    }
    core.patch_node_status(name, {"status": status})
    core.patch_node(name, {"spec": {"taints": []}})
    try:
        yield name
    finally:
        core.delete_node(name)


def test_a_runtime_for_which_a_node_is_too_small_waits_and_reports_what_there_is_too_little_of(
    admin, namespace
) -> None:
    with node_make(admin, {"cpu": "8", "memory": "8Gi", "pods": "9", GPU: "1"}) as node:
        nodes = {"tests.tinkerscript/node": node}
        launcher = launcher_of(admin, namespace, kubernetes_nodes=nodes)
        handle = start(launcher, handle_of(launcher, gpus=2))
        assert is_said(launcher, handle, f"Insufficient {GPU}")
        assert launcher.inspect(handle).state == "waiting"
        launcher.stop(handle, grace_s=0)


def test_a_runtime_whose_volume_is_not_there_waits_and_names_it(
    admin, namespace, tmp_path: Path
) -> None:
    with node_make(admin, {"cpu": "8", "memory": "8Gi", "pods": "9"}) as node:
        nodes = {"tests.tinkerscript/node": node}
        launcher = kubernetes_launcher(
            admin,
            data=tmp_path,
            kubernetes_namespace=namespace,
            kubernetes_nodes=nodes,
            kubernetes_claim="lost-claim",
        )
        fresh = launcher.new_handle(
            session_id="ses_0123456789abcdef",
            instance_id="0123abcd",
            folder=tmp_path / "runtimes" / "ses_0123456789abcdef",
        )
        start(launcher, fresh)
        assert is_said(launcher, fresh, 'persistentvolumeclaim "lost-claim" not found')
        launcher.stop(fresh, grace_s=0)


def test_a_runtime_on_a_lost_node_can_be_given_up_although_its_log_cannot_be_read(
    admin, namespace
) -> None:
    core = client.CoreV1Api(admin)
    with node_make(admin, {"cpu": "8", "memory": "8Gi", "pods": "9"}) as node:
        launcher = launcher_of(admin, namespace, kubernetes_nodes={"tests.tinkerscript/node": node})
        handle = start(launcher)

        def pod() -> Any:
            return made_for(admin, namespace, handle).get("Pod")

        assert wait_until(
            lambda: pod() is not None and pod().spec.node_name == node, timeout_s=WAIT_S, poll_s=0.1
        )
        core.patch_namespaced_pod_status(
            pod().metadata.name, namespace, {"status": {"phase": "Running"}}
        )
        assert wait_until(
            lambda: launcher.inspect(handle) == RuntimeStatus("running"),
            timeout_s=WAIT_S,
            poll_s=0.1,
        )
        (said,) = launcher.logs(handle, lines=5)
        assert "no log" in said and "connection refused" in said, said
        launcher.stop(handle, grace_s=0)
        assert launcher.inspect(handle) == RuntimeStatus("gone")
        assert pod().metadata.deletion_timestamp is not None, (
            "its node would run it for ever once it came back"
        )
        core.delete_namespaced_pod(pod().metadata.name, namespace, grace_period_seconds=0)
        assert wait_until(
            lambda: made_for(admin, namespace, handle) == {}, timeout_s=WAIT_S, poll_s=0.1
        )


def test_a_pod_that_is_taken_away_from_a_lost_node_before_it_ran_is_an_end_and_not_a_wait(
    admin, namespace
) -> None:
    """Nobody confirms that it has ended, so it stays listed."""
    core = client.CoreV1Api(admin)
    with node_make(admin, {"cpu": "8", "memory": "8Gi", "pods": "9"}) as node:
        launcher = launcher_of(admin, namespace, kubernetes_nodes={"tests.tinkerscript/node": node})
        handle = start(launcher)

        def pod() -> Any:
            return made_for(admin, namespace, handle).get("Pod")

        assert wait_until(
            lambda: pod() is not None and pod().spec.node_name == node, timeout_s=WAIT_S, poll_s=0.1
        )
        core.delete_namespaced_pod(pod().metadata.name, namespace)
        assert is_said(launcher, handle, "the pod was taken away before it ran")
        assert launcher.inspect(handle).state == "exited"
        core.delete_namespaced_pod(pod().metadata.name, namespace, grace_period_seconds=0)
        launcher.stop(handle, grace_s=0)


def test_a_job_that_has_failed_is_seen_ended_although_a_lost_node_has_one_of_its_pods(
    admin, namespace
) -> None:
    """Three pods: the first was removed, the second failed, of the third nothing is heard any
    more.
    """
    core, capacity = client.CoreV1Api(admin), {"cpu": "8", "memory": "8Gi", "pods": "9"}
    with node_make(admin, capacity), node_make(admin, capacity), node_make(admin, capacity):
        launcher = launcher_of(admin, namespace, kubernetes_nodes={})
        handle = start(launcher, handle_of(launcher) | {"nodes": 3})

        def pods() -> list[Any]:
            return sorted(
                (it for it in core.list_namespaced_pod(namespace).items if it.spec.node_name),
                key=pod_index,
            )

        assert wait_until(lambda: len(pods()) == 3, timeout_s=WAIT_S, poll_s=0.1)
        first, second, third = [pod.metadata.name for pod in pods()]
        ended = {"name": "runtime", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": 3, "startedAt": "2026-01-01T00:00:00Z"}}
        for name in (first, third):
            core.patch_namespaced_pod_status(name, namespace, {"status": {"phase": "Running"}})
        failed = {"phase": "Failed", "containerStatuses": [ended]}
        core.patch_namespaced_pod_status(second, namespace, {"status": failed})
        assert wait_until(
            lambda: pods()[0].metadata.deletion_timestamp is not None, timeout_s=WAIT_S, poll_s=0.1
        )
        core.delete_namespaced_pod(first, namespace, grace_period_seconds=0)
        assert is_said(launcher, handle, "pod 2 of 3: it ended with code 3")
        assert launcher.inspect(handle).state == "exited"
        core.delete_namespaced_pod(third, namespace, grace_period_seconds=0)
        launcher.stop(handle, grace_s=0)


def manifests_for(namespace: str, name: str) -> list[dict[str, Any]]:
    """Those of both namespaces, in one."""
    text = re.sub(
        r"namespace: tinkerscript(-runtimes)?\n",
        f"namespace: {namespace}\n",
        (MANIFESTS / name).read_text(),
    )
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize(
    "name", yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
)
def test_a_real_api_server_takes_what_stands_in_docker_kubernetes(
    admin, namespace, name: str
) -> None:
    for manifest in manifests_for(namespace, name):
        if manifest["kind"] == "Namespace":
            manifest["metadata"]["name"] += f"-{namespace}"
        utils.create_from_dict(admin, manifest, dry_run="All")


@pytest.fixture
def reconciler(
    admin, namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[client.ApiClient]:
    """The client of a pod that has the account of docker/kubernetes/access.yaml."""
    for manifest in manifests_for(namespace, "access.yaml"):
        utils.create_from_dict(admin, manifest)
    body = {"spec": {"expirationSeconds": 600}}
    granted = client.CoreV1Api(admin).create_namespaced_service_account_token(
        "reconcile", namespace, body
    )
    token, server = tmp_path / "token", urlsplit(admin.configuration.host)
    token.write_text(granted.status.token)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", admin.configuration.ssl_ca_cert)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", server.hostname)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port or 443))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with cluster_connect() as api:
        yield api


def test_the_reconcilers_account_may_do_all_that_the_launcher_does(
    admin, namespace, reconciler
) -> None:
    launcher = launcher_of(reconciler, namespace)
    orphan = start(launcher)
    session_id = orphan["launch"].partition("-")[0]
    handle = start(launcher, handle_of(launcher, session_id))
    assert start(launcher, handle) == handle
    assert is_said(launcher, handle, "nodes")
    assert launcher.logs(handle, lines=5) == []
    launcher.stop(handle, grace_s=0)
    for ended in (orphan, handle):
        assert wait_until(
            lambda ended=ended: made_for(admin, namespace, ended) == {},
            timeout_s=WAIT_S,
            poll_s=0.1,
        )


def test_the_reconcilers_account_is_refused_everything_else(admin, namespace, reconciler) -> None:
    core, jobs = client.CoreV1Api(reconciler), client.BatchV1Api(reconciler)
    handle = start(launcher_of(reconciler, namespace))
    name = object_name(handle["launch"])
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    refused = {
        "read a secret": lambda: core.read_namespaced_secret(name, namespace),
        "list secrets": lambda: core.list_namespaced_secret(namespace),
        "read a secret elsewhere": lambda: core.read_namespaced_secret("x", "kube-system"),
        "list pods elsewhere": lambda: core.list_namespaced_pod("default"),
        "list pods everywhere": lambda: core.list_pod_for_all_namespaces(),
        "make a pod": lambda: core.create_namespaced_pod(namespace, pod),
        "enter a pod": lambda: core.connect_get_namespaced_pod_exec("x", namespace),
        "make a job elsewhere": lambda: jobs.create_namespaced_job(
            "default", {"metadata": {"name": "x"}}
        ),
        "remove a service": lambda: core.delete_namespaced_service(name, namespace),
        "list nodes": lambda: core.list_node(),
        "take its own rights further": lambda: client.RbacAuthorizationV1Api(
            reconciler
        ).patch_namespaced_role("reconcile", namespace, {"rules": []}),
    }
    for act, attempt in refused.items():
        with pytest.raises(ApiException) as refusal:
            attempt()
        assert refusal.value.status == 403, act
    launcher_of(admin, namespace).stop(handle, grace_s=0)
