"""Keys for vLLM's queues between nodes: CURVE of ZeroMQ (rfc.zeromq.org/spec/26), both ways, and
everything encrypted.

vLLM binds a socket of ZeroMQ on the core's node and on each worker's, of which anyone who connects
would read every prompt and answer. Here a socket takes none who does not know its public key, which
is told to nobody else, and a reader takes no messages, which it unpickles, of a socket without the
secret one. All sockets of a session have the same pair.
"""

import os
from pathlib import Path
from typing import Any

import zmq

KEYS = "queue-keys"
REMOTE = "tcp://"


def keys_make(folder: Path) -> None:
    """Leave a new pair in ``folder``, for this user alone."""
    descriptor = os.open(folder / KEYS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"\n".join(zmq.curve_keypair()))


def queues_protect(folder: Path) -> None:
    """From now on vLLM's queues in this process have the pair of ``folder``."""
    from vllm.distributed.device_communicators import shm_broadcast

    public, secret = (folder / KEYS).read_bytes().split()

    class KeyedSocket(zmq.Socket[bytes]):
        """With the keys where it leaves the machine's own sockets of files."""

        def bind(self, addr: str) -> Any:
            if addr.startswith(REMOTE):
                self.curve_server, self.curve_secretkey = True, secret
            return super().bind(addr)

        def connect(self, addr: str) -> Any:
            if addr.startswith(REMOTE):
                self.curve_serverkey, self.curve_publickey, self.curve_secretkey = (
                    public,
                    public,
                    secret,
                )
            return super().connect(addr)

    class KeyedContext(zmq.Context[KeyedSocket]):
        _socket_class = KeyedSocket

    vars(shm_broadcast)["Context"] = KeyedContext
