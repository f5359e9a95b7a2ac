"""Runtimes as Jobs of a Kubernetes namespace, one each, found again by their names; with a pod on
each machine.
"""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from console.scheduling.launchers.kubernetes import manifests
from console.scheduling.launchers.kubernetes.manifests import (
    LAUNCH,
    RUNTIME,
    SESSION,
    Wanted,
    object_name,
)
from console.scheduling.launchers.kubernetes.pods import (
    Patience,
    job_failed,
    pod_index,
    pod_mistake,
    pod_title,
    pods_status,
)
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import (
    GATEWAY_PORT,
    Handle,
    Launcher,
    LauncherUnavailable,
    RuntimeStatus,
    launch_owner,
    launch_session,
)
from console.scheduling.launchers.snapshot import Snapshot
from console.scheduling.processes import wait_until

TIMEOUT_S = (3.0, 10.0)  # connect, read
END_WAIT_S = 3.0  # a tick must end before the reconciler's own lease does
POLL_S = 0.2
LISTED = ",".join(f"{name}={value}" for name, value in RUNTIME.items())
# Where a pod that has an account of the API finds the name of its own namespace.
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def cluster_connect(context: str = "") -> client.ApiClient:
    """The cluster that we run in, or the one that KUBECONFIG, or a ``context`` of it, names.

    Raises LauncherUnavailable when there is none.
    """
    configuration, path = client.Configuration(), os.environ.get("KUBECONFIG")
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not path and not context:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(
                path or None, context=context or None, client_configuration=configuration
            )
    except ConfigException as error:
        raise LauncherUnavailable(f"no Kubernetes cluster is configured: {error}") from error
    configuration.retries = False  # the client would wait four times over for an API that hangs
    return client.ApiClient(configuration)


class KubernetesLauncher(Launcher):
    """Jobs, each with a Secret, a Service and a NetworkPolicy of its own. ``data`` is what the
    claim holds.
    """

    name = "kubernetes"

    def __init__(self, api: client.ApiClient, *, options: LauncherOptions, data: Path) -> None:
        self._jobs, self._core = client.BatchV1Api(api), client.CoreV1Api(api)
        self._network = client.NetworkingV1Api(api)
        self._options = options
        self._namespace = options.kubernetes_namespace
        self._server_namespace = (
            OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.is_file() else ""
        )
        self._data = data
        self._patience = Patience()
        self._seen_jobs = Snapshot(lambda: _by_launch(self._list(self._jobs.list_namespaced_job)))
        self._seen_pods = Snapshot(
            lambda: _pods_by_launch(self._list(self._core.list_namespaced_pod))
        )

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        wanted = self._wanted(handle, environment)
        with self._api():
            self._end_others(handle)
            job: Any = self._create(self._jobs.create_namespaced_job, manifests.job_make(wanted))
            job = job or self._jobs.read_namespaced_job(
                wanted.name, self._namespace, _request_timeout=TIMEOUT_S
            )
            if wanted.pods > 1:
                self._check_indexed(job)
            owner = {"name": wanted.name, "uid": job.metadata.uid}
            self._create(self._core.create_namespaced_secret, manifests.secret_make(wanted, owner))
            self._create(
                self._core.create_namespaced_service, manifests.service_make(wanted, owner)
            )
            policy = manifests.network_policy_make(wanted, owner)
            self._create(self._network.create_namespaced_network_policy, policy)
            self._pods_set(wanted.name, wanted.pods)
            self._forget()
        return handle | {"uid": job.metadata.uid}

    def others_end(self, handle: Handle) -> None:
        with self._api():
            self._end_others(handle)

    def inspect(self, handle: Handle) -> RuntimeStatus:
        with self._api():
            # Pods first: one that is there then belongs to a Job that is there still, or was ended
            # in between.
            pods = self._seen_pods.find(handle["launch"])
            job = self._seen_jobs.find(handle["launch"])
        # its start or its end was broken off: nothing of it will ever run
        if job is None or job.spec.parallelism == 0:
            return RuntimeStatus("gone")
        unheard = self._patience.ended(handle["launch"], pods or [])
        return pods_status(
            pods or [], of=handle.get("nodes", 1), has_failed=job_failed(job), unheard=unheard
        )

    def address(self, handle: Handle, *, port: int) -> str:
        """The name of its Service, or of its first pod: the server is admitted to no other port of
        it.
        """
        name = manifests.gateway_host(
            object_name(handle["launch"]), self._namespace, pods=handle.get("nodes", 1)
        )
        return f"{name}:{GATEWAY_PORT}" if port == GATEWAY_PORT else ""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        self._patience.ended(handle["launch"], [])
        with self._api():
            self._end(object_name(handle["launch"]), handle["launch"], grace_s)
            self._forget()

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        with self._api():
            self._seen_pods.forget()
            pods = self._seen_pods.find(handle["launch"]) or []
            of = handle.get("nodes", 1)
            if mistakes := [
                f"{pod_title(pod, of)}{mistake}" for pod in pods if (mistake := pod_mistake(pod))
            ]:
                return mistakes
            written = []
            # Ranks of other pods write to the first one's log; what is not in it is why such a pod
            # ended by itself.
            for pod in reversed(pods):
                if pod_index(pod) == 0:
                    written += self._read_log(pod.metadata.name, lines)
                elif pod.status.phase == "Failed":
                    written += [
                        pod_title(pod, of) + line
                        for line in self._read_log(pod.metadata.name, lines)
                    ]
            return written[-lines:]

    def _wanted(self, handle: Handle, environment: Mapping[str, str]) -> Wanted:
        if self._options.kubernetes_claim:
            # The kubelet would make it too, but as its own.
            Path(handle["folder"]).mkdir(mode=0o770, parents=True, exist_ok=True)
        return Wanted(
            launch=handle["launch"],
            folder=handle["folder"],
            environment=environment,
            namespace=self._namespace,
            image=self._options.image,
            resources=replace(self._options.resources, gpus=handle["gpus"]),
            data=str(self._data),
            claim=self._options.kubernetes_claim,
            server_namespace=self._server_namespace,
            nodes=self._options.kubernetes_nodes,
            pods=handle.get("nodes", 1),
        )

    def _check_indexed(self, job: Any) -> None:
        """An API that does not know such Jobs takes them for others. Raises OSError, and leaves
        nothing.
        """
        if job.spec.completion_mode != "Indexed":
            self._jobs.delete_namespaced_job(
                job.metadata.name, self._namespace, _request_timeout=TIMEOUT_S
            )
            raise OSError(
                "this Kubernetes has no Indexed Jobs, which a session over several machines needs "
                "(1.24)"
            )

    def _list(self, listing: Callable[..., Any], selector: str = LISTED) -> list[Any]:
        return listing(self._namespace, label_selector=selector, _request_timeout=TIMEOUT_S).items

    def _read_log(self, pod: str, lines: int) -> list[str]:
        """What the API passes on from the pod's node. A lost node has no log, which must not keep
        its runtime alive.
        """
        try:
            response: Any = self._core.read_namespaced_pod_log(
                pod,
                self._namespace,
                tail_lines=lines,
                _request_timeout=TIMEOUT_S,
                _preload_content=False,  # the client would fail at a byte that is not UTF-8
            )
            return response.data.decode(errors="replace").splitlines()
        except (ApiException, HTTPError) as error:
            # not begun yet; ended meanwhile
            if isinstance(error, ApiException) and error.status in (400, 404):
                return []
            return [f"Kubernetes has no log of it: {_words(error)}"]

    def _create(self, create: Callable[..., Any], manifest: manifests.Manifest) -> Any | None:
        """The object, or None when it is there already: an earlier start got this far."""
        try:
            return create(self._namespace, manifest, _request_timeout=TIMEOUT_S)
        except ApiException as error:
            if error.status == 409:
                return None
            if error.status in (400, 403, 404, 422):
                raise OSError(
                    f"Kubernetes refuses the {manifest['kind']}: {_words(error)}"
                ) from error
            raise

    def _pods_set(self, name: str, count: int) -> None:
        body = {"spec": {"parallelism": count}}
        self._jobs.patch_namespaced_job(name, self._namespace, body, _request_timeout=TIMEOUT_S)

    def _end_others(self, handle: Handle) -> None:
        selector = f"{SESSION}={launch_session(handle['launch'])},{LAUNCH}!={handle['launch']}"
        for job in self._list(self._jobs.list_namespaced_job, selector):
            launch = job.metadata.labels[LAUNCH]
            if launch_owner(launch) == launch_owner(handle["launch"]):
                self._end(job.metadata.name, launch, 0)

    def _end(self, name: str, launch: str, grace_s: float) -> None:
        """Pods first, with their grace; then the Job with all that it owns."""
        try:
            self._pods_set(name, 0)  # no pod of it is started any more
        except ApiException as error:
            if error.status == 404:
                return
            raise
        # Never 0: that forgets a pod without waiting for its node to have ended it.
        seconds = max(1, math.ceil(grace_s))
        selector = f"{LAUNCH}={launch}"
        for pod in self._list(self._core.list_namespaced_pod, selector):
            with _missing_is_fine():
                self._core.delete_namespaced_pod(
                    pod.metadata.name,
                    self._namespace,
                    grace_period_seconds=seconds,
                    _request_timeout=TIMEOUT_S,
                )
        wait_until(
            lambda: not self._list(self._core.list_namespaced_pod, selector),
            timeout_s=seconds + END_WAIT_S,
            poll_s=POLL_S,
        )
        with _missing_is_fine():
            self._jobs.delete_namespaced_job(
                name, self._namespace, propagation_policy="Background", _request_timeout=TIMEOUT_S
            )

    def _forget(self) -> None:
        self._seen_jobs.forget()
        self._seen_pods.forget()

    @contextlib.contextmanager
    def _api(self) -> Iterator[None]:
        try:
            yield
        except (ApiException, HTTPError) as error:
            raise LauncherUnavailable(f"the Kubernetes API: {_words(error)}") from error


def _words(error: ApiException | HTTPError) -> str:
    if not isinstance(error, ApiException):
        return str(error)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return f"{json.loads(error.body or '')['message']} ({error.status})"
    return f"{error.status} {error.reason}"


def _by_launch(objects: list[Any]) -> dict[str, Any]:
    return {found.metadata.labels[LAUNCH]: found for found in objects}


def _pods_by_launch(pods: list[Any]) -> dict[str, list[Any]]:
    """The runtime's own first."""
    listed: dict[str, list[Any]] = {}
    for pod in sorted(pods, key=pod_index):
        listed.setdefault(pod.metadata.labels[LAUNCH], []).append(pod)
    return listed


@contextlib.contextmanager
def _missing_is_fine() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status != 404:
            raise
