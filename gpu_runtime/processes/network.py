"""The way from this machine to another one of its session."""

import socket

import psutil


def address_toward(address: str) -> str:
    """This machine's own address on the way to ``address``. Raises OSError where there is no
    way.
    """
    family, kind, protocol, _, place = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(place)  # a datagram socket: the kernel chooses the way, nothing is sent
        return str(probe.getsockname()[0])


def address_of(name: str) -> str:
    """The address that ``name`` has. Raises OSError where it has none."""
    return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])


def interface_toward(address: str) -> str:
    """The name of the network interface over which ``address`` is reached. Raises OSError where
    there is none.
    """
    own = address_toward(address)
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == own for each in addresses):
            return name
    raise OSError(
        f"no interface of this machine has the address {own}, by which {address} is reached"
    )


def listens(address: str, port: int, timeout_s: float) -> bool:
    """Whether a process takes a connection there."""
    try:
        socket.create_connection((address, port), timeout_s).close()
    except OSError:
        return False
    return True


def own_addresses() -> set[str]:
    """Every address of this machine, of IP version 4 and 6."""
    families = (socket.AF_INET, socket.AF_INET6)
    return {
        each.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family in families
    }
