"""The pods of a session that Kubernetes has spread over several machines: an Indexed Job, one pod
on each, the runtime in the first. The others join its Ray cluster and end with it.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from .hold import NOTICE

PODS, OWN_ADDRESS = "TINKERSCRIPT_RUNTIME_PODS", "POD_IP"
INDEX = "JOB_COMPLETION_INDEX"  # Kubernetes sets it
PORT = 6379
NAMES_S, NAMES_NOTED_S, AGAIN_S, REACH_S = 1.0, 30.0, 2.0, 5.0

log = logging.getLogger(__name__)


def pods(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The names of this session's pods inside the cluster, the runtime's first; none where it is
    not in such a Job.
    """
    return [name for name in environ.get(PODS, "").split(",") if name]


def pod_index(environ: Mapping[str, str] = os.environ) -> int:
    """Which of them this process is in."""
    return int(environ.get(INDEX, "0")) if pods(environ) else 0


def pod_name(address: str) -> str:
    """As Kubernetes lists it."""
    return address.partition(".")[0]


async def pods_started() -> None:
    """Return once the cluster has a name for each of the other pods, which it has while the pod
    runs.

    As long as one does not, the launcher says why (an image, a machine, a quota). There is no
    deadline here but the server's for runtimes that do not register.
    """
    loop = asyncio.get_running_loop()
    began = noted = loop.time()
    for address in pods()[1:]:
        while not await _has_name(address):
            if loop.time() - noted > NAMES_NOTED_S:
                noted = loop.time()
                log.warning(
                    "pod %s does not run yet, or has no name: %.0f s",
                    pod_name(address),
                    noted - began,
                )
            await asyncio.sleep(NAMES_S)


async def _has_name(address: str) -> bool:
    try:
        await asyncio.get_running_loop().getaddrinfo(address, None)
    except OSError:
        return False
    return True


def pod_join() -> int:
    """Be a node of the runtime's cluster, in a pod beside its own, until that is gone: 0 then.

    A SIGTERM is the notice that this machine is taken away. It is passed on, and the node lives on:
    what the runtime stores needs its ranks.
    """
    from .joining import node_command

    notice = Path(tempfile.mkdtemp(prefix="tinkerscript-notice-")) / "taken-away"
    os.environ[NOTICE] = str(notice)
    over = threading.Event()
    has_joined = False

    def noticed(*_: object) -> None:
        notice.touch()
        if not has_joined:
            over.set()

    signal.signal(signal.SIGTERM, noticed)
    head = pods()[0]
    log.info("pod %d of %d waits for the runtime in %s", pod_index() + 1, len(pods()), head)
    while not over.wait(AGAIN_S):
        if _reaches(head):
            has_joined = True
            command = node_command(address=f"{head}:{PORT}", own=os.environ[OWN_ADDRESS])
            code = subprocess.run(command, start_new_session=True).returncode
            if not _reaches(head):
                log.info("the runtime is gone")
                return 0
            log.error("Ray's process on this node ended with code %d", code)
            return 1
    return 0


def _reaches(head: str) -> bool:
    try:
        socket.create_connection((head, PORT), timeout=REACH_S).close()
    except OSError:
        return False
    return True
