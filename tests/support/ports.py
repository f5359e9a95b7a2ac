"""Ports for servers that are told which one to take."""

import random
import socket

# Below those that the kernel hands to all who ask for any: none of the many servers and clients of the parts that run
# beside this one can be given it between now and the start of the server that it is for.
FROM, TO = 10_000, 19_000  # the object store looks for its own above these


def free_port() -> int:
    """A port of loopback on which nothing listens, and that no one is given who does not name it."""
    while True:
        port = random.randrange(FROM, TO)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
