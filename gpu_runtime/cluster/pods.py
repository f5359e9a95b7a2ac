"""The pods of a session that Kubernetes has spread over several machines: an Indexed Job, one pod
on each, the runtime in the first. The others join its Ray cluster and end with it.
"""

import asyncio
import logging
import os
from collections.abc import Mapping

PODS, OWN_ADDRESS = "TINKERSCRIPT_RUNTIME_PODS", "POD_IP"
# A file that is made where this machine is about to be taken away.
NOTICE = "TINKERSCRIPT_NODE_NOTICE"
INDEX = "JOB_COMPLETION_INDEX"  # Kubernetes sets it
PORT = 6379
NAMES_S, NAMES_NOTED_S = 1.0, 30.0

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
