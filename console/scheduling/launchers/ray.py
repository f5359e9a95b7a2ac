"""Runtimes as jobs of a Ray cluster that exists, one each, found again by their names, through the
cluster's own API for jobs (docs.ray.io, "Ray Jobs REST API"), which its dashboard serves.

The folders of sessions (TINKERSCRIPT_DATA) and this checkout with its environment must be on a file
system that the nodes share. A job is its runtime, which places what it has on other nodes by itself
(gpu_runtime/cluster); what it may have of its own node is taken for the job.
"""

import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from console.scheduling.launchers.log_file import LOG, log_tail
from console.scheduling.launchers.process import OOM_SCORE_ADJ, code_path
from console.scheduling.launchers.protocol import (
    Handle,
    Launcher,
    LauncherUnavailable,
    MachinesShort,
    Resources,
    RuntimeStatus,
    SlowToEnd,
    amounts_environment,
    launch_owner,
)
from console.scheduling.launchers.snapshot import Snapshot
from console.scheduling.processes import wait_until

VERSION = "2.60.0"  # of the group ray in pyproject.toml: every node of a cluster has the same
TIMEOUT_S = httpx.Timeout(10.0, connect=3.0)
END_WAIT_S, POLL_S = 6.0, 0.2
ENDED = {"STOPPED", "SUCCEEDED", "FAILED"}
VARIABLES = "launch-variables"
# a runtime takes one that is free on its node; those below belong to the node
PORTS = range(1024, 65_536)
OPEN = (
    "the Ray cluster at %s has no authentication: whoever reaches it can run any program on its "
    "nodes, and read or change the weights and episodes of sessions there. Start it with "
    "RAY_AUTH_MODE=token, and name a file with the token in TINKERSCRIPT_RAY_TOKEN_FILE"
)

log = logging.getLogger(__name__)


class RayLauncher(Launcher):
    """One job per runtime. ``address`` is that of the dashboard; ``token`` empty: the cluster asks
    for none.
    """

    name = "ray"

    def __init__(
        self,
        address: str,
        *,
        token: str = "",
        resources: Resources,
        command: Sequence[str] = (sys.executable, "-m", "gpu_runtime"),
    ) -> None:
        self._address, self._token, self._resources = address, token, resources
        self._command = list(command)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers = headers
        self._seen = Snapshot(self._jobs)
        if not token:
            log.warning(OPEN, address)

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        self._seen.forget()
        self.others_end(handle)
        if self._seen.find(handle["launch"]) is None:
            self._verify(handle)
            self._submit(handle, environment)
            self._seen.forget()
        return handle

    def others_end(self, handle: Handle) -> None:
        owner = launch_owner(handle["launch"])
        for launch, job in self._jobs().items():
            if launch_owner(launch) == owner and launch != handle["launch"]:
                if job["status"] not in ENDED:
                    self._end(launch)
                self._ask("DELETE", f"/api/jobs/{launch}", missing={})

    def inspect(self, handle: Handle) -> RuntimeStatus:
        job = self._seen.find(handle["launch"])
        if job is None:
            return RuntimeStatus("gone")
        if job["status"] in ENDED:
            return RuntimeStatus("exited", _code(job), "" if _code(job) == 0 else _said(job))
        if job["status"] == "PENDING":
            return RuntimeStatus("waiting", reason=f"Ray: {_said(job) or 'the job is pending'}")
        return RuntimeStatus("running")

    def address(self, handle: Handle, *, port: int) -> str:
        job = self._seen.find(handle["launch"])
        # of the agent on the node that the job runs on
        host = urlsplit((job or {}).get("driver_agent_http_address") or "").hostname
        return f"{host}:{port}" if host and port in PORTS else ""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        self._seen.forget()
        job = self._seen.find(handle["launch"])
        if job is None or job["status"] in ENDED:
            return
        self._end(handle["launch"], grace_s=grace_s)
        self._seen.forget()

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        return log_tail(Path(handle["folder"]) / LOG, lines=lines)

    def _verify(self, handle: Handle) -> None:
        """Raises OSError, with what was found, for a cluster of another version, and MachinesShort
        for one whose machines have no room for this runtime.
        """
        found = self._ask("GET", "/api/version").get("ray_version", "")
        if found != VERSION:
            raise OSError(
                f"the cluster at {self._address} has Ray {found}; sessions need {VERSION}"
            )
        count, wanted = handle.get("nodes", 1), self._amounts(handle["gpus"])
        listed = self._ask("GET", "/api/v0/nodes", params={"detail": "true", "limit": "10000"})
        nodes = [node for node in listed["data"]["result"]["result"] if node["state"] == "ALIVE"]
        fits = [
            node
            for node in nodes
            if all(node["resources_total"].get(name, 0) >= most for name, most in wanted.items())
        ]
        if len(fits) < count:
            has = ", ".join(f"{each['node_ip']} ({_words(each, wanted)})" for each in nodes)
            asked = ", ".join(f"{name} {most:g}" for name, most in wanted.items()) or "anything"
            raise MachinesShort(
                f"{count} machines with {asked} are needed, and the Ray cluster at {self._address}"
                f" has {len(fits)} of them; its machines are {has or 'none'}"
            )

    def _submit(self, handle: Handle, environment: Mapping[str, str]) -> None:
        wanted = self._amounts(handle["gpus"])
        own = {
            "PYTHONPATH": code_path(),
            "PYTHONUNBUFFERED": "1",
            "TINKERSCRIPT_RUNTIME_LISTEN": "0.0.0.0:0",
            "TINKERSCRIPT_RUNTIME_BUNDLE": json.dumps(wanted),
            **amounts_environment(handle["gpus"], self._resources.cpus),
        }
        folder = Path(handle["folder"])
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whoever may list the cluster's jobs reads their variables: these are for the runtime.
        variables = folder / VARIABLES
        variables.unlink(missing_ok=True)
        descriptor = os.open(variables, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            for name, value in (own | dict(environment)).items():
                file.write(f"export {name}={shlex.quote(value)}\n")
        script = (
            f"cd {shlex.quote(str(folder))} && . ./{VARIABLES} && rm {VARIABLES} && "
            f"{{ echo {OOM_SCORE_ADJ} >/proc/self/oom_score_adj; ulimit -c 0; }} 2>/dev/null; "
            f"exec {shlex.join(self._command)} >>{LOG} 2>&1"
        )
        body: dict[str, Any] = {
            "entrypoint": f"umask 077; {script}",
            "submission_id": handle["launch"],
            "entrypoint_num_cpus": wanted.get("CPU", 0),
            "entrypoint_num_gpus": wanted.get("GPU", 0),
        }
        if "memory" in wanted:
            body["entrypoint_memory"] = wanted["memory"]
        self._ask("POST", "/api/jobs/", body=body, refusals=True)

    def _amounts(self, gpus: int) -> dict[str, float]:
        """Of each machine, as Ray names it."""
        found = {
            "CPU": self._resources.cpus,
            "memory": self._resources.memory_bytes,
            "GPU": gpus or None,
        }
        return {name: most for name, most in found.items() if most is not None}

    def _jobs(self) -> dict[str, dict[str, Any]]:
        """Those that were submitted, by launch."""
        listed = self._ask("GET", "/api/jobs/")
        return {job["submission_id"]: job for job in listed if job.get("submission_id")}

    def _end(self, launch: str, *, grace_s: float = 0.0) -> None:
        """Ray sends SIGTERM, and SIGKILL three seconds later. Raises SlowToEnd."""
        self._ask("POST", f"/api/jobs/{launch}/stop", missing={})

        def is_over() -> bool:
            job = self._ask("GET", f"/api/jobs/{launch}", missing={"status": "STOPPED"})
            return job["status"] in ENDED

        if not wait_until(is_over, timeout_s=grace_s + END_WAIT_S, poll_s=POLL_S):
            raise SlowToEnd(f"Ray has not ended job {launch}")

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        missing: Any = None,
        refusals: bool = False,
    ) -> Any:
        """What the API answers; ``missing`` for 404. Raises LauncherUnavailable, and OSError where
        it refuses a job.
        """
        try:
            with httpx.Client(headers=self._headers, timeout=TIMEOUT_S) as client:
                url = f"{self._address}{path}"
                answer = client.request(method, url, json=body, params=params)
        except httpx.HTTPError as error:
            raise LauncherUnavailable(f"Ray at {self._address}: {error}") from error
        if answer.status_code == 404 and missing is not None:
            return missing
        if answer.status_code in (401, 403):
            took = "does not take the token of" if self._token else "asks for a token: set"
            raise LauncherUnavailable(
                f"the Ray cluster at {self._address} {took} TINKERSCRIPT_RAY_TOKEN_FILE"
            )
        if answer.status_code >= 400:
            said = " ".join(answer.text.split())[-500:]
            if refusals and answer.status_code < 500:
                raise OSError(f"Ray refuses the job: {said}")
            raise LauncherUnavailable(f"Ray at {self._address}: {answer.status_code} {said}")
        try:
            return answer.json() if answer.content else {}
        except ValueError as error:
            raise LauncherUnavailable(
                f"{self._address} is not the dashboard of a Ray cluster"
            ) from error


def _code(job: Mapping[str, Any]) -> int | None:
    """The runtime's own, where Ray tells it; negative for a signal."""
    if job["status"] == "SUCCEEDED":
        return 0
    code = job.get("driver_exit_code")
    return -signal.SIGTERM if code is None and job["status"] == "STOPPED" else code


def _said(job: Mapping[str, Any]) -> str:
    return " ".join((job.get("message") or "").split())[:500]


def _words(node: Mapping[str, Any], wanted: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {node['resources_total'].get(name, 0):g}" for name in wanted)
