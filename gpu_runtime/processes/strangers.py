"""Whether another user of this machine takes part in the collectives of a trainer's ranks or an engine's workers.

gloo takes whoever connects first, and sends the number that comes next, for the peer that it waits for: there is no
authentication. /proc/net/tcp (proc(5)) says whose each end of a connection on one machine is. An end on another node
is not in it: between nodes the network has to be the cluster's own (docs/operations/launchers.md).
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ESTABLISHED = "01"
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


class StrangerConnected(RuntimeError):
    """Another user's process is connected to this one."""


class End(NamedTuple):
    """One end of a connection; addresses as the kernel writes them, in hexadecimal."""

    local: str
    remote: str
    uid: int
    inode: int


def strangers_refuse() -> None:
    """Raises StrangerConnected. Call it once the peers of a process group are connected, before anything is sent."""
    ends = [end for table in TABLES for end in _ends(Path(table))]
    whose, own = {(end.local, end.remote): end.uid for end in ends}, _own_sockets()
    for end in ends:
        uid = whose.get((end.remote, end.local), end.uid)
        if end.inode in own and uid != end.uid:
            port = int(end.local.rpartition(":")[2], 16)
            raise StrangerConnected(
                f"user {uid} of this machine has connected to port {port}, where this process waits for the "
                "others of its group: it could have taken the place of one. The group is not used"
            )


def _ends(table: Path) -> list[End]:
    with suppress(FileNotFoundError):  # a kernel without IPv6
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
        return [End(row[1], row[2], int(row[7]), int(row[9])) for row in rows if row[3] == ESTABLISHED]
    return []


def _own_sockets() -> set[int]:
    """The inodes of the sockets that this process has open."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            kind, _, inode = os.readlink(f"/proc/self/fd/{descriptor}").partition(":[")
            if kind == "socket":
                found.add(int(inode.rstrip("]")))
    return found
