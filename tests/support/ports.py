"""Ports for servers that are told which one to take."""

import random
import socket

# Below those that the kernel hands to all who ask for any: none of the many servers and clients of
# the parts that run beside this one can be given it between now and the start of the server that it
# is for.
FROM, TO = 10_000, 19_000  # the object store looks for its own above these
# a socket of no folder: it ends with its process, however that ends
CLAIM = "\0tinkerscript-tests-port-{}"


def free_port() -> int:
    """A port of loopback on which nothing listens, and that ``free_port`` gives to nobody while
    this process runs.
    """
    while True:
        port = random.randrange(FROM, TO)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket.socket() as probe:
            try:
                claim.bind(CLAIM.format(port))
                probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        claim.detach()  # it stays open for as long as the process
        return port
