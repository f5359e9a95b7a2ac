"""A port of loopback that another user of this machine has: what is sent there, and what is
answered, is theirs.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.another_user import NOBODY

# Imports what another user could not read, and answers 200 with JSON to whatever comes.
LISTENS = """
import encodings.idna, os, socket, sys, threading
os.setgroups([]); os.setgid({user}); os.setuid({user})
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(server.getsockname()[1], flush=True)
forged = sys.argv[3].encode()
def serve(connection):
    with connection:
        while data := connection.recv(1 << 16):
            print(data.hex(), flush=True)
            parts = ["HTTP/1.1 200 OK", "content-type: application/json", "etag: x", f"content-length: {{len(forged)}}"]
            connection.sendall("\\r\\n".join([*parts, "", ""]).encode() + forged)
while True:
    if sys.argv[2] == "waits":
        sys.stdin.read()
    threading.Thread(target=serve, args=[server.accept()[0]], daemon=True).start()
"""


class StrangersPort:
    """``port`` is theirs; ``sent`` is what they were sent so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process, self._lines = process, process.stdout
        self.port = int(process.stdout.readline())
        self.address = f"127.0.0.1:{self.port}"

    def sent(self) -> bytes:
        """All that they were sent: their process ends."""
        self._process.kill()
        return b"".join(bytes.fromhex(line) for line in self._lines)


@contextmanager
def strangers_port(
    port: int = 0, *, accepts: bool = True, forged: str = "{}"
) -> Iterator[StrangersPort]:
    """Another user listens on a port, a free one for 0. One that does not accept lets connections
    wait.
    """
    code = LISTENS.format(user=NOBODY)
    command = [sys.executable, "-c", code, str(port), "accepts" if accepts else "waits", forged]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        try:
            yield StrangersPort(process)
        finally:
            process.kill()
