"""The Kubernetes launcher: manifests against the published schemas, the official client against an
API of our own.

test_real_kubernetes.py has the same launcher on a real one.
"""

import copy
import json
import socket
from pathlib import Path

import kubernetes_validate
import pytest
from kubernetes.client import ApiClient, BatchV1Api, Configuration

from console.scheduling.launchers.kubernetes import launcher as kubernetes
from console.scheduling.launchers.kubernetes import manifests
from console.scheduling.launchers.kubernetes.manifests import GPU, Wanted
from console.scheduling.launchers.protocol import LauncherUnavailable, Resources, RuntimeStatus
from console.scheduling.processes import wait_until
from launching.backends import WAIT, kubernetes_launcher
from launching.fake_kubernetes import FakeKubernetes

WAIT_S = 20
OWNER = {"name": "ts-x", "uid": "1"}
LEASE = "tml-ls-ses_1.secret"
FOREVER = f"echo up; {WAIT}"
# The oldest and the newest that is promised.
VERSIONS = ["1.30", "1.36"]


def wanted_make(**changes) -> Wanted:
    full = {
        "launch": "ses_0123456789abcdef-01ab23cd",
        "folder": "/data/runtimes/ses_0123456789abcdef",
        "environment": {"TINKERSCRIPT_LEASE": LEASE},
        "namespace": "tinkerscript",
        "image": "tinkerscript-runtime:1",
        "resources": Resources(memory_bytes=64 << 30, cpus=8, gpus=2),
        "data": "/data",
        "claim": "tinkerscript-data",
        "nodes": {"accelerator": "h200"},
    }
    return Wanted(**(full | changes))


def all_of(wanted: Wanted) -> list[dict]:
    owned = (manifests.secret_make, manifests.service_make, manifests.network_policy_make)
    return [manifests.job_make(wanted), *(make(wanted, OWNER) for make in owned)]


@pytest.mark.system
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "changes",
    [{}, {"claim": "", "nodes": {}, "resources": Resources()}, {"pods": 3}],
    ids=["full", "least", "several"],
)
def test_every_manifest_is_what_kubernetes_takes(version: str, changes: dict) -> None:
    for manifest in all_of(wanted_make(**changes)):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_refuse_what_kubernetes_would() -> None:
    for path, value in (
        (("spec", "parallelism"), "many"),
        (("spec", "template", "spec", "unknown"), 1),
    ):
        broken = copy.deepcopy(manifests.job_make(wanted_make()))
        inner = broken
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_a_pod_has_no_rights_no_account_and_bounded_resources() -> None:
    pod = manifests.job_make(wanted_make())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False and pod["restartPolicy"] == "Never"
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (security["runAsUser"], security["runAsGroup"]) == (10_001, 10_001)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    amounts = {"cpu": "8", "memory": str(64 << 30), GPU: "2"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert pod["nodeSelector"] == {"accelerator": "h200"}
    models = next(
        mount for mount in container["volumeMounts"] if mount["mountPath"] == "/data/models"
    )
    session = next(
        mount
        for mount in container["volumeMounts"]
        if mount["mountPath"].startswith("/data/runtimes/")
    )
    assert models["readOnly"] and session["subPath"] == "runtimes/ses_0123456789abcdef"


def test_the_lease_stands_in_the_secret_alone() -> None:
    job, secret, *others = all_of(wanted_make())
    assert LEASE in str(secret)
    assert LEASE not in str([job, *others])


def test_only_the_server_reaches_a_runtime_and_it_reaches_no_node_metadata() -> None:
    policy = manifests.network_policy_make(wanted_make(), OWNER)["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": manifests.SERVER}}]
    elsewhere = manifests.network_policy_make(wanted_make(server_namespace="servers"), OWNER)[
        "spec"
    ]
    (peer,) = elsewhere["ingress"][0]["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "servers"}}
    assert peer["podSelector"] == {"matchLabels": manifests.SERVER}
    assert policy["egress"][0]["to"][0]["ipBlock"]["except"] == ["169.254.0.0/16"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}


@pytest.fixture
def cluster():
    cluster = FakeKubernetes()
    yield cluster
    cluster.close()


@pytest.fixture
def launcher(cluster: FakeKubernetes):
    return kubernetes_launcher(cluster.url)


def handle_of(launcher, tmp_path: Path) -> dict:
    return launcher.new_handle(
        session_id="ses_0123456789abcdef", instance_id="0123abcd", folder=tmp_path / "session"
    )


def start(launcher, tmp_path: Path, program: str = FOREVER) -> dict:
    return launcher.start(handle_of(launcher, tmp_path), environment={"PROGRAM": program})


def fresh(cluster: FakeKubernetes):
    """A launcher that has not looked yet."""
    return kubernetes_launcher(cluster.url)


def left_in(cluster: FakeKubernetes) -> list[tuple[str, str]]:
    return list(cluster.objects)


@pytest.mark.system
def test_everything_that_was_made_for_a_runtime_goes_with_it(
    cluster, launcher, tmp_path: Path
) -> None:
    handle = start(launcher, tmp_path)
    assert {kind for kind, _ in cluster.objects} == {
        "jobs",
        "secrets",
        "services",
        "networkpolicies",
        "pods",
    }
    launcher.stop(handle, grace_s=1)
    assert left_in(cluster) == []


@pytest.mark.system
def test_a_runtime_is_reached_by_the_name_of_its_service(cluster, launcher, tmp_path: Path) -> None:
    handle = start(launcher, tmp_path, "echo $TINKERSCRIPT_RUNTIME_ADDRESS; sleep 30")
    (service,) = cluster.names("services")
    assert wait_until(
        lambda: launcher.logs(handle, lines=1) == [f"{service}.tests.svc:7000"], timeout_s=WAIT_S
    )
    launcher.stop(handle, grace_s=0)


@pytest.mark.system
def test_each_runtime_asks_for_as_many_devices_as_its_session_has(
    cluster, launcher, tmp_path: Path
) -> None:
    for number, gpus in enumerate((0, 1, 4)):
        folder = tmp_path / str(number)
        names = {
            "session_id": f"ses_{number}123456789abcde",
            "instance_id": "0123abcd",
            "folder": folder,
        }
        handle = launcher.new_handle(**names, gpus=gpus)
        launcher.start(handle, environment={"PROGRAM": FOREVER})
    asked = []
    for (kind, _), job in cluster.objects.items():
        if kind == "jobs":
            (container,) = job["spec"]["template"]["spec"]["containers"]
            variables = {entry["name"]: entry.get("value") for entry in container["env"]}
            limits = container["resources"]["limits"]
            asked.append(
                (limits.get("nvidia.com/gpu", "0"), variables["TINKERSCRIPT_RUNTIME_GPUS"])
            )
    assert sorted(asked) == [("0", "0"), ("1", "1"), ("4", "4")]


def test_a_pod_without_a_node_waits_and_gives_the_reason(cluster, launcher, tmp_path: Path) -> None:
    cluster.no_node = True
    handle = start(launcher, tmp_path)
    status = launcher.inspect(handle)
    assert status.state == "waiting" and "Insufficient nvidia.com/gpu" in status.reason
    assert launcher.logs(handle, lines=5) == []


@pytest.mark.system
def test_a_node_that_does_not_answer_for_a_log_keeps_no_one_from_ending_its_runtime(
    cluster, launcher, tmp_path
) -> None:
    handle = start(launcher, tmp_path)
    cluster.node_lost = True
    assert launcher.logs(handle, lines=5) == [
        "Kubernetes has no log of it: dial tcp 10.0.0.7:10250: connect: no route to host (500)"
    ]
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")


def test_an_image_that_cannot_be_had_is_an_end_with_its_reason(
    cluster, launcher, tmp_path: Path
) -> None:
    cluster.image_missing = True
    handle = start(launcher, tmp_path)
    status = launcher.inspect(handle)
    assert status.state == "exited" and "ErrImagePull" in status.reason
    assert launcher.logs(handle, lines=5) == ["ErrImagePull: stub:1: not found"]


@pytest.mark.parametrize("began", [None, "1970-01-01T00:00:00Z"])
def test_a_container_that_cannot_start_is_an_end_with_why(
    cluster, launcher, tmp_path: Path, began: str | None
) -> None:
    """Kubelets say of it that it began at the epoch."""
    cluster.preparing = True
    handle = start(launcher, tmp_path)
    ended = {"exitCode": 128, "reason": "StartError", "message": 'exec: "x": not found'} | {
        "startedAt": began
    }
    status = {"image": "x", "imageID": "", "name": "runtime", "restartCount": 0, "ready": False}
    (pod,) = cluster.names("pods")
    status["state"] = {
        "terminated": {key: value for key, value in ended.items() if value is not None}
    }
    cluster.objects["pods", pod]["status"] = {"phase": "Failed", "containerStatuses": [status]}
    assert fresh(cluster).inspect(handle) == RuntimeStatus(
        "exited", 128, 'StartError: exec: "x": not found'
    )


@pytest.mark.system
def test_a_start_that_was_broken_off_is_gone_and_can_be_done_again(
    cluster, launcher, tmp_path, monkeypatch
) -> None:
    fresh = handle_of(launcher, tmp_path)
    monkeypatch.setattr(
        BatchV1Api, "patch_namespaced_job", lambda *_, **__: (_ for _ in ()).throw(SystemExit)
    )
    with pytest.raises(SystemExit):
        launcher.start(fresh, environment={"PROGRAM": FOREVER})
    monkeypatch.undo()
    assert cluster.names("jobs") and not cluster.names("pods")
    assert kubernetes_launcher(cluster.url).inspect(fresh) == RuntimeStatus("gone")
    launcher.start(fresh, environment={"PROGRAM": FOREVER})
    assert launcher.inspect(fresh) == RuntimeStatus("running")
    launcher.stop(fresh, grace_s=0)
    assert left_in(cluster) == []


def test_what_kubernetes_refuses_is_an_os_error_with_its_words(
    cluster, launcher, tmp_path: Path
) -> None:
    cluster.quota = "exceeded quota: gpus"
    with pytest.raises(OSError, match="refuses the Job.*exceeded quota: gpus"):
        start(launcher, tmp_path)


def test_an_api_that_does_not_answer_is_away_and_no_runtime_is_reported_as_gone(
    tmp_path: Path,
) -> None:
    unreachable = Configuration(host="http://127.0.0.1:9")
    unreachable.retries = False
    broken = kubernetes_launcher(ApiClient(unreachable))
    handle = handle_of(broken, tmp_path)
    for ask in (
        lambda: broken.inspect(handle),
        lambda: broken.stop(handle, grace_s=0),
        lambda: broken.logs(handle, lines=1),
        lambda: broken.start(handle, environment={}),
    ):
        with pytest.raises(LauncherUnavailable):
            ask()


def test_an_api_that_takes_calls_and_responds_to_none_is_away_at_its_first_deadline(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(kubernetes, "TIMEOUT_S", (0.5, 0.5))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {
            "name": "c",
            "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"},
        }
        context = {"name": "c", "context": {"cluster": "c", "user": ""}}
        path = tmp_path / "kubeconfig"
        path.write_text(
            json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"})
        )
        monkeypatch.setenv("KUBECONFIG", str(path))
        launcher = kubernetes_launcher(kubernetes.cluster_connect())
        with pytest.raises(LauncherUnavailable):
            launcher.inspect(handle_of(launcher, tmp_path))
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it was asked once, not again and again
            silent.accept()


def test_a_context_names_one_of_several_clusters(tmp_path: Path, monkeypatch) -> None:
    names = ["near", "far"]
    path = tmp_path / "kubeconfig"
    clusters = [{"name": name, "cluster": {"server": f"http://{name}.example"}} for name in names]
    contexts = [{"name": name, "context": {"cluster": name, "user": ""}} for name in names]
    path.write_text(
        json.dumps({"clusters": clusters, "contexts": contexts, "current-context": "near"})
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    found = [
        kubernetes.cluster_connect(context).configuration.host for context in ("", "far", "near")
    ]
    assert found == ["http://near.example", "http://far.example", "http://near.example"]
    with pytest.raises(LauncherUnavailable, match="gone"):
        kubernetes.cluster_connect("gone")


def several_start(launcher, tmp_path: Path, program: str = FOREVER) -> dict:
    fresh = handle_of(launcher, tmp_path) | {"nodes": 2}
    return launcher.start(fresh, environment={"PROGRAM": program})


def on_index(first: str, other: str) -> str:
    return f'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then {first}; else {other}; fi'


def test_pods_of_one_session_have_names_machines_and_a_key_of_their_own_and_reach_one_another_alone() -> (
    None
):
    job, secret, service, policy = all_of(wanted_make(pods=2))
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == 2
    pod, labels = (
        job["spec"]["template"]["spec"],
        {"matchLabels": {manifests.LAUNCH: wanted_make().launch}},
    )
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {"labelSelector": labels, "topologyKey": "kubernetes.io/hostname"}
    assert (
        pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    )
    lost = {
        each["key"].partition("/")[2]: each["tolerationSeconds"] for each in pod["tolerations"][1:]
    }
    assert lost == {"not-ready": 60, "unreachable": 60}, (
        "a pod that is bound to a lost machine holds up the others"
    )
    variables = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    hosts = variables[manifests.PODS].split(",")
    assert hosts == [
        f"{job['metadata']['name']}-{index}.{pod['subdomain']}.tinkerscript.svc" for index in (0, 1)
    ]
    assert variables["TINKERSCRIPT_RUNTIME_ADDRESS"] == f"{hosts[0]}:7000"
    server, each_other = policy["spec"]["ingress"]
    assert each_other["from"] == [{"podSelector": labels}] and server["ports"] == [
        {"protocol": "TCP", "port": 7000}
    ]
    assert each_other["ports"] == [{"protocol": "TCP"}], (
        "Ray's processes and ranks choose theirs; nothing of UDP"
    )
    token = secret["stringData"][manifests.TOKEN]
    assert len(token) == 64 and token not in str(job) and variables["RAY_AUTH_MODE"] == "token"
    assert token != all_of(wanted_make(pods=2))[1]["stringData"][manifests.TOKEN]
    assert manifests.TOKEN not in all_of(wanted_make())[1]["stringData"]


@pytest.mark.system
def test_the_first_pod_speaks_for_all_and_all_go_with_it(cluster, launcher, tmp_path: Path) -> None:
    handle = several_start(
        launcher, tmp_path, on_index(f"echo first; {WAIT}", f"echo other; {WAIT}")
    )
    assert len(cluster.names("pods")) == 2
    assert wait_until(lambda: launcher.logs(handle, lines=5) == ["first"], timeout_s=WAIT_S)
    assert launcher.inspect(handle) == RuntimeStatus("running")
    (job,) = cluster.names("jobs")
    assert launcher.address(handle, port=7000) == f"{job}-0.{job}.tests.svc:7000"
    launcher.stop(handle, grace_s=1)
    assert left_in(cluster) == []


@pytest.mark.system
def test_a_pod_that_finds_no_machine_of_its_own_is_waited_for_by_its_number(
    cluster, launcher, tmp_path: Path
) -> None:
    cluster.machines = 1
    handle = several_start(launcher, tmp_path)
    said = "pod 2 of 2: Kubernetes: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    assert launcher.inspect(handle) == RuntimeStatus("waiting", reason=said)
    launcher.stop(handle, grace_s=0)


@pytest.mark.system
def test_the_end_of_another_pod_ends_the_first_and_is_the_reason(
    cluster, launcher, tmp_path: Path
) -> None:
    handle = several_start(
        launcher, tmp_path, on_index(f"echo first; {WAIT}", "echo missing library; exit 3")
    )
    assert wait_until(lambda: fresh(cluster).inspect(handle).state == "exited", timeout_s=WAIT_S)
    assert fresh(cluster).inspect(handle).reason == "pod 2 of 2: it ended with code 3"
    assert "pod 2 of 2: missing library" in fresh(cluster).logs(handle, lines=5)
    launcher.stop(handle, grace_s=0)
    assert left_in(cluster) == []


def test_images_that_are_missing_name_the_pods_of_several(
    cluster, launcher, tmp_path: Path
) -> None:
    cluster.image_missing = True
    handle = several_start(launcher, tmp_path)
    assert launcher.logs(handle, lines=5) == [
        f"pod {number} of 2: ErrImagePull: stub:1: not found" for number in (1, 2)
    ]
    launcher.stop(handle, grace_s=0)


@pytest.mark.parametrize("index", [0, 1])
def test_a_pod_that_is_taken_from_a_lost_machine_before_it_ran_is_an_end_by_name(
    cluster, launcher, tmp_path, index: int
) -> None:
    """Its machine never confirms that it has ended, so it stays listed."""
    cluster.preparing = True
    handle = several_start(launcher, tmp_path)
    assert launcher.inspect(handle).state == "waiting"
    pod = cluster.objects["pods", cluster.names("pods")[index]]
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    told = {
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"} | told]
    if index:  # then the first runs, and waits for it
        cluster.objects["pods", cluster.names("pods")[0]]["status"] = {"phase": "Running"}
    said = (
        "the pod was taken away before it ran: DeletionByTaintManager: "
        "Taint manager: deleting due to NoExecute taint"
    )
    assert fresh(cluster).inspect(handle) == RuntimeStatus(
        "exited", reason="pod 2 of 2: " * index + said
    )
    launcher.stop(handle, grace_s=0)


@pytest.mark.parametrize("condition", ["Failed", "FailureTarget"])
def test_a_job_that_fails_is_an_end_although_not_all_of_its_pods_are_heard_of(
    cluster, launcher, tmp_path, condition: str
) -> None:
    cluster.preparing = True
    handle = several_start(launcher, tmp_path)
    first, second = cluster.names("pods")
    del cluster.objects["pods", first]
    ended = {"terminated": {"exitCode": 3, "startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "image": "x",
        "imageID": "",
        "name": "runtime",
        "restartCount": 0,
        "ready": False,
        "state": ended,
    }
    cluster.objects["pods", second]["status"] = {"phase": "Failed", "containerStatuses": [status]}
    assert fresh(cluster).inspect(handle).state == "waiting"
    cluster.objects["jobs", cluster.names("jobs")[0]]["status"] = {
        "conditions": [{"type": condition, "status": "True"}]
    }
    assert fresh(cluster).inspect(handle) == RuntimeStatus(
        "exited", reason="pod 2 of 2: it ended with code 3"
    )


def test_a_kubernetes_without_indexed_jobs_is_refused_and_nothing_stays(
    cluster, launcher, tmp_path: Path
) -> None:
    cluster.old = True
    with pytest.raises(OSError, match="no Indexed Jobs"):
        several_start(launcher, tmp_path)
    assert left_in(cluster) == []
