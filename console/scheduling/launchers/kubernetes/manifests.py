"""The objects of one runtime in Kubernetes, as the API takes them: pure functions of what is
wanted.

A Job runs the one pod, or one on each of several machines. A Secret holds its lease, a Service
gives its gateway or its pods names, a NetworkPolicy admits only the server to it. The Job owns the
other three: they are deleted with it.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.config.own_certificate import certificate_make
from console.scheduling.launchers.protocol import (
    GATEWAY_PORT,
    Resources,
    amounts_environment,
    launch_session,
)

Manifest = dict[str, Any]

LAUNCH, SESSION = "tinkerscript/launch", "tinkerscript/session"  # labels
RUNTIME = {"app.kubernetes.io/name": "tinkerscript", "app.kubernetes.io/component": "runtime"}
SERVER = {"app.kubernetes.io/name": "tinkerscript", "app.kubernetes.io/component": "server"}
USER = 10_001
GRACE_S = 60  # the longest that a pod may take to end by default
END_S = 10  # of them, for the runtime's processes to end once what they have is stored
# How long one of several pods stays bound to a machine of which the cluster hears nothing: not 300
# s, as by default, in which the others would wait for it, or have long ended.
UNHEARD_S = 60
UNHEARD = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
KEEP_ENDED_S = 86_400  # then Kubernetes deletes what we did not
# Where clouds hand out the credentials of the node itself.
METADATA = "169.254.0.0/16"
GPU = "nvidia.com/gpu"
INDEX = "batch.kubernetes.io/job-completion-index"  # an annotation of each pod of an Indexed Job
MACHINE = "kubernetes.io/hostname"
# Of several pods alone, for gpu_runtime/cluster; the token is Ray's own variable.
PODS, POD_IP, TOKEN = "TINKERSCRIPT_RUNTIME_PODS", "POD_IP", "RAY_AUTH_TOKEN"
AUTHORITY = "TINKERSCRIPT_RUNTIME_AUTHORITY"


@dataclass(frozen=True)
class Wanted:
    """One runtime. ``folder`` is the session's, ``data`` what the claim holds; without one it goes
    with the pod.
    """

    launch: str
    folder: str
    environment: Mapping[str, str]
    namespace: str
    image: str
    resources: Resources
    data: str
    claim: str = ""
    server_namespace: str = ""  # where the server's pods are; empty: where the runtime is
    nodes: Mapping[str, str] = field(default_factory=dict)
    pods: int = 1  # one on each machine; the runtime is in the first

    @property
    def name(self) -> str:
        """Of all four objects: a DNS label."""
        return object_name(self.launch)


def object_name(launch: str) -> str:
    """The name in Kubernetes of a launch."""
    return f"ts-{launch}".replace("_", "-").lower()


def job_make(wanted: Wanted) -> Manifest:
    """The Job, of no pods yet: nothing runs before its network policy is there.

    ``suspend`` would do the same; a Kubernetes before 1.22 ignores it and starts the pod at once.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(wanted),
        "spec": {
            "parallelism": 0,
            "completions": wanted.pods,
            # With an index each pod has a name of its own, by which the others find it.
            **({"completionMode": "Indexed"} if wanted.pods > 1 else {}),
            "backoffLimit": 0,  # restarting is the reconciler's, with a new lease
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEEP_ENDED_S,
            "template": {"metadata": {"labels": _labels(wanted)}, "spec": _pod(wanted)},
        },
    }


def secret_make(wanted: Wanted, owner: Manifest) -> Manifest:
    """The environment of the runtime. It holds the lease, which the Job, readable to many, must
    not.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(wanted, owner),
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(wanted.environment)
        # by what the pods of one session know each other
        | (_pods_keys() if wanted.pods > 1 else {}),
    }


def service_make(wanted: Wanted, owner: Manifest) -> Manifest:
    """The name under which the server finds the gateway; of several pods, the name of each."""
    spec: Manifest = {
        "type": "ClusterIP",
        "selector": {LAUNCH: wanted.launch},
        "ports": [
            {"name": "gateway", "port": GATEWAY_PORT, "targetPort": GATEWAY_PORT, "protocol": "TCP"}
        ],
    }
    if wanted.pods > 1:
        spec["clusterIP"] = "None"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(wanted, owner),
        "spec": spec,
    }


def gateway_host(name: str, namespace: str, *, pods: int) -> str:
    """The name inside the cluster of what the gateway is behind: of a Service, or of the first of
    its pods.
    """
    return f"{name}.{namespace}.svc" if pods == 1 else pod_host(name, namespace, 0)


def pod_host(name: str, namespace: str, index: int) -> str:
    """The name inside the cluster of a pod of an Indexed Job with a headless Service."""
    return f"{name}-{index}.{name}.{namespace}.svc"


def network_policy_make(wanted: Wanted, owner: Manifest) -> Manifest:
    """In: the server, to the gateway; a session's pods, to one another.

    Out: everywhere (the server, the store, a model hub) but the node's metadata.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(wanted, owner),
        "spec": {
            "podSelector": {"matchLabels": {LAUNCH: wanted.launch}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [_server_pods(wanted)],
                    "ports": [{"protocol": "TCP", "port": GATEWAY_PORT}],
                },
                *([_each_other(wanted)] if wanted.pods > 1 else []),
            ],
            "egress": [
                {
                    "to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [METADATA]}},
                        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
                    ]
                }
            ],
        },
    }


def _server_pods(wanted: Wanted) -> Manifest:
    """Who is admitted. The label with a namespace's name is Kubernetes's own: it cannot be given to
    another.
    """
    peer: Manifest = {"podSelector": {"matchLabels": SERVER}}
    if wanted.server_namespace not in ("", wanted.namespace):
        peer["namespaceSelector"] = {
            "matchLabels": {"kubernetes.io/metadata.name": wanted.server_namespace}
        }
    return peer


def _each_other(wanted: Wanted) -> Manifest:
    """On every port: Ray's processes and gloo's ranks choose theirs as they meet."""
    return {
        "from": [{"podSelector": {"matchLabels": {LAUNCH: wanted.launch}}}],
        "ports": [{"protocol": "TCP"}],
    }


def _labels(wanted: Wanted) -> dict[str, str]:
    return RUNTIME | {LAUNCH: wanted.launch, SESSION: launch_session(wanted.launch)}


def _metadata(wanted: Wanted, owner: Manifest | None = None) -> Manifest:
    metadata: Manifest = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": _labels(wanted),
    }
    if owner is not None:
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": owner["name"],
            "uid": owner["uid"],
        }
        metadata["ownerReferences"] = [reference]
    return metadata


def _pod(wanted: Wanted) -> Manifest:
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(wanted)],
        "volumes": _volumes(wanted),
    }
    if wanted.nodes:
        pod["nodeSelector"] = dict(wanted.nodes)
    if wanted.pods > 1:
        pod["subdomain"] = wanted.name
        others = {"labelSelector": {"matchLabels": {LAUNCH: wanted.launch}}, "topologyKey": MACHINE}
        pod["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]}
        }
    if tolerations := _tolerations(wanted):
        pod["tolerations"] = tolerations
    return pod


def _tolerations(wanted: Wanted) -> list[Manifest]:
    tolerated: list[Manifest] = []
    if wanted.resources.gpus:
        tolerated.append({"key": GPU, "operator": "Exists", "effect": "NoSchedule"})
    if wanted.pods > 1:
        same = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNHEARD_S}
        tolerated += [{"key": key, **same} for key in UNHEARD]
    return tolerated


def _container(wanted: Wanted) -> Manifest:
    gateway = gateway_host(wanted.name, wanted.namespace, pods=wanted.pods)
    own = {
        "HOME": wanted.folder,
        "TINKERSCRIPT_RUNTIME_LISTEN": f"0.0.0.0:{GATEWAY_PORT}",
        "TINKERSCRIPT_RUNTIME_ADDRESS": f"{gateway}:{GATEWAY_PORT}",
        "TINKERSCRIPT_RUNTIME_NOTICE_S": str(GRACE_S - END_S),
        **amounts_environment(wanted.resources.gpus or 0, wanted.resources.cpus),
    }
    variables: list[Manifest] = [{"name": name, "value": value} for name, value in own.items()]
    if wanted.pods > 1:
        names = ",".join(
            pod_host(wanted.name, wanted.namespace, index) for index in range(wanted.pods)
        )
        variables.append({"name": PODS, "value": names})
        variables.append({"name": "RAY_AUTH_MODE", "value": "token"})
        variables.append({"name": POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    mounts: list[Manifest] = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if wanted.claim:
        models = {
            "name": "data",
            "mountPath": f"{wanted.data}/models",
            "subPath": "models",
            "readOnly": True,
        }
        inside = wanted.folder.removeprefix(wanted.data).strip("/")
        mounts += [models, {"name": "data", "mountPath": wanted.folder, "subPath": inside}]
    else:
        mounts.append({"name": "session", "mountPath": wanted.folder})
    return {
        "name": "runtime",
        "image": wanted.image,
        "workingDir": wanted.folder,
        "env": variables,
        "envFrom": [{"secretRef": {"name": wanted.name}}],
        "ports": [{"name": "gateway", "containerPort": GATEWAY_PORT, "protocol": "TCP"}],
        "resources": _amounts(wanted.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _pods_keys() -> dict[str, str]:
    authority = "".join(certificate_make("tinkerscript session"))
    return {TOKEN: secrets.token_hex(32), AUTHORITY: authority}


def _amounts(resources: Resources) -> Manifest:
    """Requests equal limits: a runtime that was given a place is not evicted for another's use."""
    amounts = {}
    if resources.cpus is not None:
        amounts["cpu"] = str(resources.cpus)
    if resources.memory_bytes is not None:
        amounts["memory"] = str(resources.memory_bytes)
    if resources.gpus:
        amounts[GPU] = str(resources.gpus)
    return {"requests": amounts, "limits": dict(amounts)}


def _volumes(wanted: Wanted) -> list[Manifest]:
    shared = {"medium": "Memory"}
    if wanted.resources.memory_bytes is not None:
        shared["sizeLimit"] = str(wanted.resources.memory_bytes)  # it counts as memory of the pod
    volumes: list[Manifest] = [
        {"name": "shm", "emptyDir": shared},
        {"name": "tmp", "emptyDir": {}},
    ]
    if wanted.claim:
        return [*volumes, {"name": "data", "persistentVolumeClaim": {"claimName": wanted.claim}}]
    return [*volumes, {"name": "session", "emptyDir": {}}]
