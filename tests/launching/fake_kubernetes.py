"""A Kubernetes API of our own over real HTTP: objects are checked against the published schemas,
pods are processes.

It serves what the launcher uses: create, read, list by label, patch and delete; Jobs that make a
pod once they may have one, or one for each index; Secrets as environment; owners whose objects go
with them; pods that end within their grace. A pod with an index has a loopback address of its own,
and finds the others' by name in its /etc/hosts.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

from console.scheduling.launchers.kubernetes.manifests import INDEX
from console.scheduling.launchers.protocol import GATEWAY_PORT

VERSION = "1.34"
PATH = re.compile(
    r"/apis?/(?P<group>[\w./]+)/namespaces/(?P<namespace>[\w-]+)/(?P<kind>\w+)(/(?P<name>[\w.-]+))?(?P<log>/log)?"
)
Object = dict[str, Any]
# What a pod with an index is started by: its own hosts file, then what it runs.
ENTER = 'mount --bind "$0" /etc/hosts && exec "$@"'


class ApiError(Exception):
    """A request that this API refuses, with the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeKubernetes:
    """``url`` serves it.

    ``no_node``: new pods get no node; ``image_missing``: they get no image; ``quota``: why no Job
    is taken; ``preparing``: they are never done with that; ``node_lost``: pods' nodes do not
    answer; ``ended_as``: why containers end, if there is more to say than their code; ``machines``:
    on how many pods with an index may be; ``old``: it knows no such Jobs. ``command`` is what a
    container runs, in the ``environment`` that its image sets.
    """

    def __init__(
        self,
        command: Sequence[str] = ("/bin/sh", "-c", 'eval "$PROGRAM"'),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.machines, self.old = 99, False
        self._command, self._environment = (
            list(command),
            {"PATH": os.environ["PATH"]} | dict(environment or {}),
        )
        self._addresses: dict[str, str] = {}  # of pods with an index, by name inside the cluster
        self.objects: dict[tuple[str, str], Object] = {}  # (kind, name) ->
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # pod ->
        self.no_node = self.image_missing = self.preparing = self.node_lost = False
        self.ended_as = ""
        self.quota = ""  # why no Job is taken
        self._lock = threading.RLock()
        self._logs = Path(tempfile.mkdtemp(prefix="ts-kube-"))
        self.hosts = self._logs / "hosts"
        self.hosts.write_text(Path("/etc/hosts").read_text())
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def enter(self, command: Sequence[str]) -> list[str]:
        """``command`` as a process that finds pods by their names."""
        return ["unshare", "--mount", "sh", "-c", ENTER, str(self.hosts), *command]

    def kubeconfig_write(self, path: Path) -> Path:
        """For clients that read a file. YAML is a superset of JSON."""
        cluster = {"name": "own", "cluster": {"server": self.url}}
        context = {"name": "own", "context": {"cluster": "own", "user": ""}}
        path.write_text(
            json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "own"})
        )
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self.processes.values():
            _kill(process)
        shutil.rmtree(self._logs, ignore_errors=True)

    def names(self, kind: str) -> list[str]:
        return [name for of, name in self.objects if of == kind]

    def answer(self, method: str, target: str, body: Object | None) -> Any:
        parts = urlsplit(target)
        matched = PATH.fullmatch(parts.path)
        if not matched:
            raise ApiError(404, f"no such path: {parts.path}")
        kind, name = matched["kind"], matched["name"]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self._lock:
            self._observe()
            if method == "POST":
                return self._create(kind, matched["namespace"], body)
            if method == "GET" and name is None:
                found = [obj for (of, _), obj in self.objects.items() if of == kind]
                return {
                    "items": [
                        obj for obj in found if _selected(obj, query.get("labelSelector", ""))
                    ]
                }
            if (kind, name) not in self.objects:
                raise ApiError(404, f"{kind} {name} not found")
            if matched["log"]:
                return self._log(name, int(query.get("tailLines", "1000")))
            if method == "PATCH":
                self.objects[kind, name]["spec"] |= body["spec"]
                self._job_changed(self.objects[kind, name])
            elif method == "DELETE":
                self._delete(kind, name, int((body or query).get("gracePeriodSeconds", 30)))
            return self.objects.get((kind, name), {"kind": "Status", "status": "Success"})

    def _log(self, pod: str, lines: int) -> bytes | None:
        if self.node_lost:
            raise ApiError(500, "dial tcp 10.0.0.7:10250: connect: no route to host")
        if self.preparing:
            raise ApiError(
                400, f'container "runtime" in pod "{pod}" is waiting to start: ContainerCreating'
            )
        if pod not in self.processes:
            return None
        return b"".join((self._logs / pod).read_bytes().splitlines(keepends=True)[-lines:])

    def _create(self, kind: str, namespace: str, manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        if manifest["metadata"].get("namespace", namespace) != namespace:
            raise ApiError(400, "the namespace of the object does not match that of the path")
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            raise ApiError(422, f"{manifest['kind']} is invalid: {error.message}") from error
        if kind == "jobs" and self.quota:
            raise ApiError(403, self.quota)
        if (kind, name) in self.objects:
            raise ApiError(409, f"{kind} {name} already exists")
        for owner in manifest["metadata"].get("ownerReferences", []):
            if owner["uid"] not in {obj["metadata"]["uid"] for obj in self.objects.values()}:
                raise ApiError(422, f"no object has the uid {owner['uid']}")
        if kind == "jobs" and self.old:
            manifest["spec"].pop("completionMode", None)
        manifest["metadata"]["uid"] = secrets.token_hex(8)
        self.objects[kind, name] = manifest
        if kind == "jobs":
            manifest["status"] = {}
            self._job_changed(manifest)
        return manifest

    def _job_changed(self, job: Object) -> None:
        """What the Job controller does."""
        pods = [pod for pod in self._owned(job) if pod["kind"] == "Pod"]
        if job["spec"]["parallelism"] == 0:
            for pod in pods:
                self._delete(
                    "pods", pod["metadata"]["name"], pod["spec"]["terminationGracePeriodSeconds"]
                )
        elif not pods and not job["status"].get("conditions"):
            if job["spec"].get("completionMode") == "Indexed":
                for index in range(job["spec"]["parallelism"]):
                    self._make_pod(job, index)
            else:
                self._make_pod(job)

    def _make_pod(self, job: Object, index: int | None = None) -> None:
        template = json.loads(json.dumps(job["spec"]["template"]))
        name = f"{job['metadata']['name']}-{secrets.token_hex(2)}"
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
        }
        template["metadata"] |= {
            "name": name,
            "uid": secrets.token_hex(8),
            "ownerReferences": [owner],
        }
        if index is not None:
            name = template["metadata"]["name"] = (
                f"{job['metadata']['name']}-{index}-{secrets.token_hex(2)}"
            )
            template["metadata"]["annotations"] = {INDEX: str(index)}
            template["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
        pod = {"apiVersion": "v1", "kind": "Pod"} | template | {"status": {"phase": "Pending"}}
        self.objects["pods", name] = pod
        container = pod["spec"]["containers"][0]
        if index is not None and index >= self.machines:
            message = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "message": message}
            ]
        elif self.no_node:
            message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "message": message}
            ]
        elif self.image_missing:
            waiting = {
                "waiting": {"reason": "ErrImagePull", "message": f"{container['image']}: not found"}
            }
            pod["status"]["containerStatuses"] = [_status(container, waiting)]
        elif self.preparing:
            pod["status"]["containerStatuses"] = [
                _status(container, {"waiting": {"reason": "ContainerCreating"}})
            ]
        else:
            self._run(pod, container)

    def _run(self, pod: Object, container: Object) -> None:
        """What the kubelet does."""
        environment = {
            entry["name"]: entry["value"] for entry in container["env"] if "value" in entry
        }
        command = self._command
        if index := pod["metadata"].get("annotations", {}).get(INDEX):
            command = self.enter(command)
            environment |= self._network(pod) | {"JOB_COMPLETION_INDEX": index}
        for source in container["envFrom"]:
            environment |= self.objects["secrets", source["secretRef"]["name"]]["stringData"]
        name, folder = pod["metadata"]["name"], container["workingDir"]
        Path(folder).mkdir(parents=True, exist_ok=True)
        with (self._logs / name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=folder,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pod["status"] = {
            "phase": "Running",
            "containerStatuses": [_status(container, {"running": {}})],
        }

    def _network(self, pod: Object) -> dict[str, str]:
        """An address of its own, by which the others know it, and the environment that has it."""
        address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
        spec, namespace = pod["spec"], pod["metadata"].get("namespace", "tests")
        self._addresses[f"{spec['hostname']}.{spec['subdomain']}.{namespace}.svc"] = address
        pod["status"]["podIP"] = address
        self._write_hosts()
        (container,) = spec["containers"]
        fields = {
            it["name"]: it["valueFrom"]["fieldRef"]["fieldPath"]
            for it in container["env"]
            if "valueFrom" in it
        }
        assert set(fields.values()) <= {"status.podIP"}
        return dict.fromkeys(fields, address) | {
            "TINKERSCRIPT_RUNTIME_LISTEN": f"{address}:{GATEWAY_PORT}"
        }

    def _write_hosts(self) -> None:
        """In place: it is mounted."""
        lines = [f"{address} {name}" for name, address in self._addresses.items()]
        self.hosts.write_text("\n".join([Path("/etc/hosts").read_text(), *lines, ""]))

    def _observe(self) -> None:
        """Pods whose process ended, and their Jobs."""
        for name, process in list(self.processes.items()):
            pod = self.objects.get(("pods", name))
            code = process.poll()
            if pod is None or code is None or pod["status"]["phase"] != "Running":
                continue
            ended = {
                "terminated": {
                    "exitCode": code if code >= 0 else 128 - code,
                    "startedAt": "2026-01-01T00:00:00Z",
                }
            }
            ended["terminated"] |= {"reason": self.ended_as} if self.ended_as else {}
            phase = "Failed" if code else "Succeeded"
            container = pod["spec"]["containers"][0]
            pod["status"] = {"phase": phase, "containerStatuses": [_status(container, ended)]}
            job = self.objects.get(("jobs", pod["metadata"]["ownerReferences"][0]["name"]))
            if job is not None and (code or not self._others_run(job)):
                kind = "Failed" if code else "Complete"
                job["status"] = {"conditions": [{"type": kind, "status": "True"}]}
                for other in self._others_run(job):
                    self._delete(
                        "pods",
                        other["metadata"]["name"],
                        other["spec"]["terminationGracePeriodSeconds"],
                    )

    def _others_run(self, job: Object) -> list[Object]:
        return [
            each
            for each in self._owned(job)
            if each["kind"] == "Pod" and each["status"]["phase"] == "Running"
        ]

    def _delete(self, kind: str, name: str, grace_s: int) -> None:
        found = self.objects[kind, name]
        if kind == "pods" and name in self.processes:
            threading.Thread(target=self._end_pod, args=(name, grace_s), daemon=True).start()
            return
        del self.objects[kind, name]
        for owned in self._owned(found):
            self._delete(_plural(owned["kind"]), owned["metadata"]["name"], grace_s)

    def _end_pod(self, name: str, grace_s: int) -> None:
        process = self.processes[name]
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        _kill(process)
        with self._lock:
            self.objects.pop(("pods", name), None)

    def _owned(self, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        owned = [obj for obj in self.objects.values() if obj["metadata"].get("ownerReferences")]
        return [obj for obj in owned if obj["metadata"]["ownerReferences"][0]["uid"] == uid]


def _plural(kind: str) -> str:
    return {"NetworkPolicy": "networkpolicies"}.get(kind, f"{kind.lower()}s")


def _status(container: Object, state: Object) -> Object:
    same = {
        "image": container["image"],
        "imageID": "",
        "name": container["name"],
        "restartCount": 0,
    }
    return same | {"ready": "running" in state, "state": state}


def _selected(obj: Object, selector: str) -> bool:
    labels = obj["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        name, is_not, value = re.fullmatch(r"([^!=]+)(!?)=(.*)", term).groups()
        if (labels.get(name) == value) == bool(is_not):
            return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(25)


def _handler(cluster: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                code, answer = 200, cluster.answer(self.command, self.path, body)
            except ApiError as error:
                code, answer = (
                    error.code,
                    {"kind": "Status", "message": str(error), "code": error.code},
                )
            body = (
                b""
                if answer is None
                else answer
                if isinstance(answer, bytes)
                else json.dumps(answer).encode()
            )
            self.send_response(code if answer is not None else 204)
            self.send_header(
                "Content-Type", "text/plain" if isinstance(answer, bytes) else "application/json"
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = serve

        def log_message(self, *_: object) -> None:
            pass

    return Handler
