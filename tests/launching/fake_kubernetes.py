"""A Kubernetes API of our own over real HTTP: objects are checked against the published schemas, pods are processes.

It serves what the launcher uses: create, read, list by label, patch and delete; Jobs that make a pod once they may
have one; Secrets as environment; owners whose objects go with them; pods that end within their grace.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

VERSION = "1.34"
PATH = re.compile(
    r"/apis?/(?P<group>[\w./]+)/namespaces/(?P<namespace>[\w-]+)/(?P<kind>\w+)(/(?P<name>[\w.-]+))?(?P<log>/log)?"
)
Object = dict[str, Any]


class ApiError(Exception):
    """A request that this API refuses, with the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeKubernetes:
    """``url`` serves it.

    ``no_node``: new pods get no node; ``image_missing``: they get no image; ``quota``: why no Job is taken;
    ``preparing``: they are never done with that; ``node_lost``: pods' nodes do not answer; ``ended_as``: why containers
    end, if there is more to say than their code.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}  # (kind, name) ->
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # pod ->
        self.no_node = self.image_missing = self.preparing = self.node_lost = False
        self.ended_as = ""
        self.quota = ""  # why no Job is taken
        self._lock = threading.RLock()
        self._logs = Path(tempfile.mkdtemp(prefix="ts-kube-"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

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
                return {"items": [obj for obj in found if _selected(obj, query.get("labelSelector", ""))]}
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
            raise ApiError(400, f'container "runtime" in pod "{pod}" is waiting to start: ContainerCreating')
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
                self._delete("pods", pod["metadata"]["name"], pod["spec"]["terminationGracePeriodSeconds"])
        elif not pods and not job["status"].get("conditions"):
            self._make_pod(job)

    def _make_pod(self, job: Object) -> None:
        template = json.loads(json.dumps(job["spec"]["template"]))
        name = f"{job['metadata']['name']}-{secrets.token_hex(2)}"
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
        }
        template["metadata"] |= {"name": name, "uid": secrets.token_hex(8), "ownerReferences": [owner]}
        pod = {"apiVersion": "v1", "kind": "Pod"} | template | {"status": {"phase": "Pending"}}
        self.objects["pods", name] = pod
        container = pod["spec"]["containers"][0]
        if self.no_node:
            message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
            pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message}]
        elif self.image_missing:
            waiting = {"waiting": {"reason": "ErrImagePull", "message": f"{container['image']}: not found"}}
            pod["status"]["containerStatuses"] = [_status(container, waiting)]
        elif self.preparing:
            pod["status"]["containerStatuses"] = [_status(container, {"waiting": {"reason": "ContainerCreating"}})]
        else:
            self._run(pod, container)

    def _run(self, pod: Object, container: Object) -> None:
        """What the kubelet does."""
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        for source in container["envFrom"]:
            environment |= self.objects["secrets", source["secretRef"]["name"]]["stringData"]
        name, folder = pod["metadata"]["name"], container["workingDir"]
        Path(folder).mkdir(parents=True, exist_ok=True)
        with (self._logs / name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                ["/bin/sh", "-c", 'eval "$PROGRAM"'],
                cwd=folder,
                env={"PATH": os.environ["PATH"]} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pod["status"] = {"phase": "Running", "containerStatuses": [_status(container, {"running": {}})]}

    def _observe(self) -> None:
        """Pods whose process ended, and their Jobs."""
        for name, process in list(self.processes.items()):
            pod = self.objects.get(("pods", name))
            code = process.poll()
            if pod is None or code is None or pod["status"]["phase"] != "Running":
                continue
            ended = {"terminated": {"exitCode": code if code >= 0 else 128 - code, "startedAt": "2026-01-01T00:00:00Z"}}
            ended["terminated"] |= {"reason": self.ended_as} if self.ended_as else {}
            phase = "Failed" if code else "Succeeded"
            container = pod["spec"]["containers"][0]
            pod["status"] = {"phase": phase, "containerStatuses": [_status(container, ended)]}
            job = self.objects.get(("jobs", pod["metadata"]["ownerReferences"][0]["name"]))
            if job is not None:
                kind = "Failed" if code else "Complete"
                job["status"] = {"conditions": [{"type": kind, "status": "True"}]}

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
    same = {"image": container["image"], "imageID": "", "name": container["name"], "restartCount": 0}
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
                code, answer = error.code, {"kind": "Status", "message": str(error), "code": error.code}
            body = b"" if answer is None else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code if answer is not None else 204)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, bytes) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = serve

        def log_message(self, *_: object) -> None:
            pass

    return Handler
