"""``python -m gpu_runtime.cluster.node HEAD:PORT [OWN]``: a node of a session's own cluster, beside
the runtime's. It ends with the head. In a pod beside the runtime's ``pod_join`` is all there is.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from gpu_runtime.processes.network import address_of, address_toward, listens

from .joining import USUAL, node_command
from .pods import NOTICE, OWN_ADDRESS, PORT, pod_index, pods
from .tls import AUTHORITY, tls_begin

AGAIN_S, REACH_S = 2.0, 5.0

log = logging.getLogger(__name__)


def node_run(address: str, own: str = "") -> int:
    """Be it; Ray's exit code."""
    own = own or address_toward(address.rpartition(":")[0])
    folder = Path(tempfile.mkdtemp(prefix="tinkerscript-node-"))
    try:
        tls_begin(os.environ[AUTHORITY], own, folder)
        command = node_command(address=address, own=own)
        return subprocess.run(command, env=os.environ | USUAL, start_new_session=True).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pod_join() -> int:
    """Be a node of the runtime's cluster, in a pod beside its own, until that is gone: 0 then.

    A SIGTERM is the notice that this machine is taken away. It is passed on, and the node lives on:
    what the runtime stores needs its ranks.
    """
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
        if listens(head, PORT, REACH_S):
            has_joined = True
            # its certificate is for its address, not for its name
            code = node_run(f"{address_of(head)}:{PORT}", os.environ[OWN_ADDRESS])
            if not listens(head, PORT, REACH_S):
                log.info("the runtime is gone")
                return 0
            log.error("Ray's process on this node ended with code %d", code)
            return 1
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    # a notice is for the runtime, which ends its nodes
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(node_run(*sys.argv[1:]))
