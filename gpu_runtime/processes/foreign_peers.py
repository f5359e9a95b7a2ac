"""Whether another user of this machine takes part in the collectives of a trainer's ranks or an
engine's workers.

gloo takes whoever connects first, and sends the number that comes next, for the peer that it waits
for: there is no authentication. The kernel says whose each end of a connection on one machine is.
About an end on another node it says nothing: between nodes the network has to be the cluster's own
(docs/operations/launchers.md).

vLLM makes the groups of an engine's workers itself, one after another, and through each of gloo
passes pickles. So each is looked at as it is made: its peers are connected by then, and nothing has
been sent.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import wraps
from typing import Any

from tinkerscript.processes.port_owner import is_trusted, peer_user

MADE_BY = ("init_process_group", "new_group")


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


def groups_watch() -> None:
    """From now on groups that torch makes in this process raise ForeignPeer. A second call
    changes nothing.
    """
    from torch import distributed  # here and not above: a runtime's gateway loads no torch

    for name in MADE_BY:
        if not hasattr(make := getattr(distributed, name), "is_watched"):
            vars(distributed)[name] = _watched(make, distributed)


def _watched(make: Any, distributed: Any) -> Any:
    @wraps(make)
    def made(*arguments: Any, **options: Any) -> Any:
        group = make(*arguments, **options)
        if distributed.get_world_size() > 1:  # else there are no peers
            foreign_peers_refuse()
        return group

    vars(made)["is_watched"] = True
    return made
