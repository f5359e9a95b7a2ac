"""Which user of this machine has the other end of a connection, before anything is sent over it.

A port is a number that any user can listen on once the program that had it is gone: a secret, a
prompt or a file that is sent to it is theirs then, and what comes back is forged. The kernel knows
whose each end is and is asked with sock_diag(7): one question of some 15 microseconds for each new
connection, none for one that is kept. Where that is not to be had (a service confined to some
families of sockets), it is read in /proc/net/tcp (proc(5)), which takes milliseconds. An end on
another machine, or in another network namespace, is in neither: nothing is said about that.
"""

import errno
import logging
import os
import pwd
import socket
import struct
import sys
import time
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

TRUSTED = "TINKERSCRIPT_TRUSTED_USERS"
ROOT = 0  # reads everything anyway
ESTABLISHED, SYN_RECV, LISTEN, NEW_SYN_RECV = 1, 3, 10, 12  # net/tcp_states.h
SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLMSG_ERROR, NLM_F_REQUEST = 4, 20, 2, 1
HEADER = struct.Struct("=IHHII")  # nlmsghdr
ASKED = struct.Struct("=BBBBI")  # the head of inet_diag_req_v2; an inet_diag_sockid follows
UID_AT, STATE_AT = 16 + 64, 16 + 1  # of inet_diag_msg
NO_COOKIE, ANY_STATE = 0xFFFF_FFFF, 0xFFFF_FFFF
ANSWER_S, ANSWER_BYTES = 5.0, 8192
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
MAPPED = bytes(10) + b"\xff\xff"
SAID_EVERY_S = 10.0

log = logging.getLogger(__name__)
_said_at: dict[str, float] = {}


class StrangersPort(ConnectionError):
    """Another user of this machine has the other end of a connection, or it is closed already.
    Nothing was sent."""


class Address(NamedTuple):
    """``packed`` as the network writes it, 4 bytes or 16."""

    packed: bytes
    port: int
    interface: int = 0


class End(NamedTuple):
    """A socket as the kernel lists it. Without an inode it is no process's: closed, or not accepted
    yet."""

    state: int
    uid: int
    inode: int


def peer_verify(connection: Any) -> None:
    """Raises StrangersPort, in words that say what to do, unless the other end of ``connection`` is
    ours.

    Ours is what this user, root, or one that TINKERSCRIPT_TRUSTED_USERS names has, and what is on
    another machine. ``connection`` is a connected socket, or what an event loop gives in its place.
    Call it before the first byte.
    """
    uid = peer_user(connection)
    if uid is None or is_trusted(uid):
        return
    host, port = connection.getpeername()[:2]
    words = (
        f"port {port} of {host} is another user's of this machine: {_name(uid)}'s. Nothing was "
        "sent to it. Stop what "
        f"listens there; if it is a service of yours, name its account in {TRUSTED}"
    )
    if time.monotonic() - _said_at.get(words, -SAID_EVERY_S) >= SAID_EVERY_S:
        _said_at.clear()
        _said_at[words] = time.monotonic()
        log.warning(words)
    raise StrangersPort(words)


def peer_user(connection: Any) -> int | None:
    """The user of the other end of a TCP connection; None where it is on another machine. Raises
    StrangersPort."""
    here, there = _address(connection.getsockname()), _address(connection.getpeername())
    try:
        with closing(_Kernel()) as kernel:
            end = kernel.find(there, here)
            if end is None:
                own = kernel.find(here, there)
                if own is not None and own.state == ESTABLISHED:
                    return None
                raise OSError(errno.ENOENT, "the kernel lists no TCP socket, or this one is closed")
            if not end.inode:
                # Of one that waits to be accepted, whose the listener is. It is alive while this
                # still waits: so the second look, without which the listener could be another's
                # that came after.
                listener = kernel.find(there, _anywhere(there))
                end = kernel.find(there, here) or end
                return _user(end, listener)
            return end.uid
    except StrangersPort:
        raise
    except OSError:
        return _listed_user(here, there)


def listener_user(host: str, port: int) -> int | None:
    """Who listens where a connection to this address would arrive; None where nobody of this
    machine does."""
    there = _address((host, port))
    try:
        with closing(_Kernel()) as kernel:
            found = kernel.find(there, _anywhere(there))
    except OSError:
        found = _listed_listener(_table(), there)
    return found.uid if found is not None and found.state == LISTEN else None


def is_trusted(uid: int) -> bool:
    """Whether what this user of the machine listens on is taken for ours."""
    return uid in (os.geteuid(), ROOT) or uid in trusted_users(os.environ.get(TRUSTED, ""))


@lru_cache(maxsize=8)
def trusted_users(text: str) -> frozenset[int]:
    """The users that ``name,name`` or their numbers name. Raises ValueError for one that is not
    there."""
    found = set()
    for name in filter(None, map(str.strip, text.split(","))):
        try:
            found.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise ValueError(f"{TRUSTED}: there is no user {name!r} on this machine.") from None
    return frozenset(found)


def pool_checked(pool: type[Any]) -> type[Any]:
    """A class of urllib3's connection pools as ``pool``, whose new connections are verified."""
    from urllib3.exceptions import NewConnectionError

    class CheckedConnection(pool.ConnectionCls):  # type: ignore[name-defined]
        def _new_conn(self) -> socket.socket:
            connection: socket.socket = super()._new_conn()
            try:
                peer_verify(connection)
            except OSError as error:
                connection.close()
                raise NewConnectionError(self, str(error)) from error
            return connection

    return type(f"Checked{pool.__name__}", (pool,), {"ConnectionCls": CheckedConnection})


class _Kernel:
    """A socket of sock_diag. Raises OSError where there is none."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG)
        self._socket.settimeout(ANSWER_S)

    def close(self) -> None:
        self._socket.close()

    def find(self, local: Address, remote: Address) -> End | None:
        """The socket of this pair of addresses, else the one that listens at ``local``."""
        family = socket.AF_INET if len(local.packed) == 4 else socket.AF_INET6
        ports = struct.pack(">HH", local.port, remote.port)
        where = local.packed.ljust(16, b"\0") + remote.packed.ljust(16, b"\0")
        which = struct.pack("=III", local.interface, NO_COOKIE, NO_COOKIE)
        asked = ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + ports + where + which
        size_bytes = HEADER.size + len(asked)
        self._socket.send(HEADER.pack(size_bytes, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + asked)
        answer = self._socket.recv(ANSWER_BYTES)
        if HEADER.unpack_from(answer)[1] == NLMSG_ERROR:
            number = -struct.unpack_from("=i", answer, HEADER.size)[0]
            if number == errno.ENOENT:
                return None
            raise OSError(number, os.strerror(number))
        return End(answer[STATE_AT], *struct.unpack_from("=II", answer, UID_AT))


def _user(end: End, listener: End | None) -> int:
    if end.inode:
        return end.uid
    if (
        end.state in (ESTABLISHED, SYN_RECV, NEW_SYN_RECV)
        and listener is not None
        and listener.state == LISTEN
    ):
        return listener.uid
    raise StrangersPort("the other end has closed the connection")


def _listed_user(here: Address, there: Address) -> int | None:
    """As ``peer_user``, out of /proc."""
    table = _table()
    end = table.get((there, here))
    if end is None:
        if here.packed != there.packed:
            return None
        raise StrangersPort(f"the kernel lists no owner of port {there.port} of this machine")
    return _user(end, _listed_listener(table, there))


def _listed_listener(table: dict[tuple[Address, Address], End], there: Address) -> End | None:
    # what listens on every IPv6 address takes IPv4 too
    wildcards = [_anywhere(there).packed, bytes(16)]
    places = [Address(packed, there.port) for packed in (there.packed, *wildcards)]
    found = (table.get((place, _anywhere(place))) for place in places)
    return next(filter(None, found), None)


def _table() -> dict[tuple[Address, Address], End]:
    found = {}
    for table in TABLES:
        with suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(table).read_text().splitlines()[1:]:
                row = line.split()
                found[_read(row[1]), _read(row[2])] = End(int(row[3], 16), int(row[7]), int(row[9]))
    return found


def _read(text: str) -> Address:
    """Words of four bytes in the order of this machine, in hexadecimal."""
    words, _, port = text.partition(":")
    packed = bytes.fromhex(words)
    if sys.byteorder == "little":
        packed = b"".join(packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
    return Address(_unmapped(packed), int(port, 16))


def _address(name: Any) -> Address:
    """Of a socket's name, whose interface counts for addresses of one link alone."""
    family = socket.AF_INET6 if ":" in name[0] else socket.AF_INET
    packed = _unmapped(socket.inet_pton(family, name[0].partition("%")[0]))
    return Address(packed, name[1], name[3] if len(name) == 4 and len(packed) == 16 else 0)


def _unmapped(packed: bytes) -> bytes:
    """An IPv4-mapped address (RFC 4291, 2.5.5.2) as its IPv4 one."""
    return packed[12:] if packed[:12] == MAPPED else packed


def _anywhere(address: Address) -> Address:
    return Address(bytes(len(address.packed)), 0)


def _name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"
