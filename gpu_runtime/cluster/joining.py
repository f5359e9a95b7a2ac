"""The Ray cluster of a session over several machines: one that exists, or one that is started here
for this session and ends with it.

RAY_ADDRESS       a cluster that exists, of the launcher `ray`; its driver is this process
a job of Slurm    the head beside the runtime, a node on each other machine by `srun`
a Job of pods     the head beside the runtime; the other pods join by themselves (pods.py)

What is started here asks every connection for a token of the session, speaks TLS, and has no
dashboard.
"""

import asyncio
import importlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from gpu_runtime.errors import NodesDiffer, PlacementImpossible, TrainerFailed
from gpu_runtime.processes.network import address_toward, listens
from gpu_runtime.processes.starting import environment_now, kept_from_children
from tinkerscript.processes import machine_share

from .pods import OWN_ADDRESS, PORT, pods
from .slurm import NODES, job_nodes, on_nodes
from .tls import AUTHORITY, authority_make, tls_begin

ADDRESS, MODE, TOKEN = "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
OWN = ""  # this machine's address in a cluster that exists: Ray finds it
HEAD_S, END_S = 60.0, 10.0
STORE_BYTES = 256 << 20  # for batches on their way; taken from shared memory as they come
POLL_S = 0.2
# The head asks each node again and again, and counts one as lost after so many answers that did not
# come: within 26 s, in the place of Ray's own 62 (LOST_S of rank_actor.py is longer).
CHECKS, CHECK_S, CHECK_PERIOD_S = 4, 5, 2
# No statistics are sent, and a node that has lost the head ends soon.
USUAL = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_health_check_failure_threshold": str(CHECKS),
    "RAY_health_check_timeout_ms": str(CHECK_S * 1000),
    "RAY_health_check_period_ms": str(CHECK_PERIOD_S * 1000),
}
NO_RAY = (
    "a session over several machines needs Ray, which is not installed for its runtime: install "
    "requirements/ray.txt into its environment"
)
OPEN = (
    "the Ray cluster at %s has no authentication: whoever reaches it can run any program on its "
    "nodes, and read or change this session's weights and episodes. Start it with "
    "RAY_AUTH_MODE=token"
)

log = logging.getLogger(__name__)


def ray_import() -> Any:
    """Ray, which is an extra of the runtime. Raises PlacementImpossible where it is not
    installed.
    """
    os.environ.update(USUAL)
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise PlacementImpossible(f"{NO_RAY} ({error})") from error
    return ray


@asynccontextmanager
async def cluster_joined(nodes: int) -> AsyncIterator[None]:
    """This process as the driver of the session's cluster. Raises PlacementImpossible where there
    is none, NodesDiffer for one of another version.
    """
    with ExitStack() as started:
        address, own = await asyncio.to_thread(_cluster_find, nodes, started)
        await asyncio.to_thread(_connect, address, own)
        try:
            yield
        finally:
            await asyncio.to_thread(ray_import().shutdown)


def node_command(*, address: str = "", own: str = "", port: int = 0, folder: str = "") -> list[str]:
    """Starts a node of Ray, in the foreground: of the cluster at ``address``, or its head."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    if address:
        command.append(f"--address={address}")
    else:
        command += ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"]
    return [
        *command,
        *([f"--node-ip-address={own}"] if own else []),
        "--disable-usage-stats",
        f"--num-cpus={machine_share.cpus()}",
        f"--object-store-memory={STORE_BYTES}",
        # of which workers' ports are chosen by the kernel: two nodes may be on one machine
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]


def _cluster_find(nodes: int, started: ExitStack) -> tuple[str, str]:
    """Its address, and this machine's own in it where it is known."""
    ray_import_verify()
    if there := pods():
        if len(there) != nodes:
            raise PlacementImpossible(
                f"nodes={nodes}, and this Job of Kubernetes has {len(there)} pods"
            )
        own = os.environ[OWN_ADDRESS]
        return started.enter_context(_head(own, PORT)), own
    if os.environ.get(NODES):
        first, *others = job_nodes(nodes)
        own = address_toward(others[0].address)
        address = started.enter_context(_head(own, _free_port(own)))
        joins = [sys.executable, "-m", "gpu_runtime.cluster.node", address]
        started.enter_context(_running([*on_nodes(others), *joins]))
        log.info("Ray of %s, and of %s", first.name, ", ".join(node.name for node in others))
        return address, own
    if address := os.environ.get(ADDRESS, ""):
        if os.environ.get(MODE) != "token":
            log.warning(OPEN, address)
        return address, OWN
    raise PlacementImpossible(
        f"nodes={nodes} needs a Ray cluster, a job of Slurm over {nodes} nodes, or one of "
        "Kubernetes; this runtime is in none"
    )


def ray_import_verify() -> None:
    """Raises PlacementImpossible where Ray is not installed. It is not imported yet: what it reads
    then has to be set before.
    """
    if importlib.util.find_spec("ray") is None:
        raise PlacementImpossible(NO_RAY)


@contextmanager
def _head(own: str, port: int) -> Iterator[str]:
    """The head of a new cluster, whose address this gives; every connection is asked for the
    session's token.
    """
    os.environ[MODE] = "token"
    os.environ.setdefault(TOKEN, secrets.token_hex(32))
    os.environ.setdefault(AUTHORITY, authority_make())
    # Ray lets everyone write to its folder, and its sockets want a short path.
    folder = Path(tempfile.mkdtemp(prefix="tinkerscript-ray-", dir="/tmp"))
    try:
        tls_begin(os.environ[AUTHORITY], own, folder)
        # at SIGTERM it would take half a minute to send its actors elsewhere
        command = node_command(own=own, port=port, folder=str(folder / "ray"))
        with _running(command, end_by=signal.SIGKILL) as head:
            until = time.monotonic() + HEAD_S
            while not listens(own, port, 1.0):
                if head.poll() is not None or time.monotonic() > until:
                    raise TrainerFailed("the head of Ray did not start: the session's log says why")
                time.sleep(POLL_S)
            yield f"{own}:{port}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(
    command: list[str], end_by: signal.Signals = signal.SIGTERM
) -> Iterator["subprocess.Popen[bytes]"]:
    environment = environment_now() | USUAL
    with kept_from_children():
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, end_by)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_S)


def _connect(address: str, own: str) -> None:
    ray = ray_import()
    named = {"_node_ip_address": own} if own else {}
    try:
        ray.init(address=address, log_to_driver=True, configure_logging=False, **named)
    except ray.exceptions.AuthenticationError as error:
        raise PlacementImpossible(
            f"the Ray cluster at {address} does not take this runtime's token: {error}"
        ) from error
    except (RuntimeError, ConnectionError) as error:
        if "ersion mismatch" in str(error):
            raise NodesDiffer(
                f"the Ray cluster at {address}: {' '.join(str(error).split())}"
            ) from (error)
        raise TrainerFailed(f"the Ray cluster at {address} is not reached: {error}") from error


def _free_port(own: str) -> int:
    with socket.create_server((own, 0)) as listener:
        return int(listener.getsockname()[1])
