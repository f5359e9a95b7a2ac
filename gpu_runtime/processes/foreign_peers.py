"""Whether another user of this machine takes part in the collectives of a trainer's ranks or an
engine's workers.

gloo takes whoever connects first, and sends the number that comes next, for the peer that it waits
for: there is no authentication. The kernel says whose each end of a connection on one machine is.
About an end on another node it says nothing: between nodes the network has to be the cluster's own
(docs/operations/launchers.md).
"""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

from tinkerscript.processes.port_owner import is_trusted, peer_user


class ForeignPeer(RuntimeError):
    """Another user's process is connected to this one."""


def foreign_peers_refuse() -> None:
    """Raises ForeignPeer. Call it once the peers of a process group are connected, before
    anything is sent.
    """
    for connection in _own_connections():
        with closing(connection), suppress(OSError):  # it listens, or it is closed meanwhile
            uid = peer_user(connection)
            if uid is not None and not is_trusted(uid):
                raise ForeignPeer(
                    f"user {uid} of this machine has connected to port"
                    f" {connection.getsockname()[1]}, where this process waits for the others of"
                    " its group: it could have taken the place of one. The group is not used"
                )


def _own_connections() -> Iterator[socket.socket]:
    """Of TCP, each by a descriptor of its own, for the caller to close."""
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            copy = os.dup(int(descriptor))
            try:
                found = socket.socket(fileno=copy)
            except OSError:  # it is no socket, and still open
                os.close(copy)
                continue
            if (
                found.family in (socket.AF_INET, socket.AF_INET6)
                and found.type == socket.SOCK_STREAM
            ):
                yield found
            else:
                found.close()
