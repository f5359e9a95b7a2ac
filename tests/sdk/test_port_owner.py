"""Whose the other end of a connection is: the kernel is asked, whether it was accepted or waits for
that.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from support.another_user import NOBODY, require_root
from support.strangers_port import strangers_port
from tinkerscript.processes import port_owner
from tinkerscript.processes.port_owner import (
    StrangersPort,
    listener_user,
    peer_user,
    peer_verify,
    trusted_users,
)

KERNEL = port_owner._Kernel  # noqa: SLF001


class NoKernel:
    """A service that is confined to some families of sockets."""

    def __init__(self) -> None:
        raise OSError(97, "Address family not supported by protocol")


@pytest.fixture(params=["the kernel", "its table"])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "its table":
        monkeypatch.setattr(port_owner, "_Kernel", NoKernel)
    return request.param


@pytest.fixture(params=["127.0.0.1", "::1", "both"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A server of ours, and a connection to it that waits to be accepted."""
    is_both = request.param == "both"
    host = "::" if is_both else request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=is_both) as server:
        to = "127.0.0.1" if is_both else host
        with socket.create_connection((to, server.getsockname()[1])) as connection:
            yield server, connection


def test_both_ends_of_our_own_connection_are_ours(
    asked: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    server, connection = pair
    peer_verify(connection)
    assert peer_user(connection) == os.getuid()
    accepted = server.accept()[0]
    with closing(accepted):
        assert peer_user(connection) == peer_user(accepted) == os.getuid()
    assert listener_user(*connection.getpeername()[:2]) == os.getuid()


@pytest.mark.smoke
@pytest.mark.parametrize("accepts", [True, False])
def test_a_port_of_another_user_is_refused_by_name(
    asked: str, accepts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_root()
    with (
        strangers_port(accepts=accepts) as stranger,
        socket.create_connection(("127.0.0.1", stranger.port)) as connection,
    ):
        with pytest.raises(
            StrangersPort, match=f"port {stranger.port} of 127.0.0.1 .*nobody's.*TRUSTED_USERS"
        ):
            peer_verify(connection)
        assert listener_user("127.0.0.1", stranger.port) == NOBODY
        monkeypatch.setenv("TINKERSCRIPT_TRUSTED_USERS", "nobody")
        peer_verify(connection)


def test_an_end_that_is_closed_is_nobodys(
    asked: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    server, connection = pair
    server.accept()[0].close()
    with pytest.raises(StrangersPort):
        peer_verify(connection)


def test_a_listener_that_comes_after_the_connection_does_not_vouch_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another user accepts and goes; the port is ours again before we look at who listens."""
    require_root()
    seen: list[port_owner.End | None] = [
        port_owner.End(port_owner.ESTABLISHED, 0, 0),  # it waits to be accepted
        port_owner.End(port_owner.LISTEN, os.getuid(), 7),  # and this is ours, which came after
        port_owner.End(port_owner.ESTABLISHED, NOBODY, 8),
    ]
    monkeypatch.setattr(KERNEL, "find", lambda *_: seen.pop(0))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
        pytest.raises(StrangersPort, match="nobody"),
    ):
        peer_verify(connection)
    assert seen == []


def test_an_end_on_another_machine_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has our end of it alone."""
    find = KERNEL.find
    monkeypatch.setattr(
        KERNEL, "find", lambda self, *pair: find(self, *pair) if pair[0].port == own else None
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        own = connection.getsockname()[1]
        assert peer_user(connection) is None
        peer_verify(connection)


def test_users_are_names_or_numbers_of_this_machine() -> None:
    assert trusted_users("nobody, 7") == {NOBODY, 7}
    with pytest.raises(ValueError, match="there is no user 'nobody-of-this-name'"):
        trusted_users("nobody-of-this-name")
