"""The pods of a session that Kubernetes has spread over several machines: their names, and the line
between them.

An Indexed Job runs one pod on each machine. The runtime is in the first; the others run
pod_host.py, on whose port it starts ranks. Both ends of a connection prove by TLS that they have
the key of this session's Secret. A connection says first what it is for:

HOLD  the runtime lives, and its pods with it; it is told here by NOTICE that one of them is taken away
RUN   a rank: its standard input one way, frames (FRAME) of its outputs and its exit code the other way
"""

import asyncio
import os
import socket
import ssl
import struct
import tempfile
from collections.abc import Mapping

PODS, KEY, OWN_ADDRESS = (
    "TINKERSCRIPT_RUNTIME_PODS",
    "TINKERSCRIPT_RUNTIME_PODS_KEY",
    "POD_IP",
)
INDEX = "JOB_COMPLETION_INDEX"  # Kubernetes sets it
PORT = 7001
HOLD, RUN, NOTICE = b"H", b"R", b"N"
FRAME = struct.Struct(">BI")  # what follows, and how many bytes of it
OUTPUT, ERRORS, CODE = 1, 2, 3
# exit code of pod_exec.py: the connection ended before the rank did (EX_TEMPFAIL of sysexits.h)
LOST = 75
CHUNK = 1 << 16
SHAKE_S, AGAIN_S = 10.0, 0.5
# Seconds until a connection to a machine without power or network is over.
SILENT_S = 30


def pods(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The names of this session's pods inside the cluster, the runtime's first; none where it is
    not in such a Job.
    """
    return [name for name in environ.get(PODS, "").split(",") if name]


def pod_index(environ: Mapping[str, str] = os.environ) -> int:
    """Which of them this process is in."""
    return int(environ.get(INDEX, "0")) if pods(environ) else 0


def pod_name(address: str) -> str:
    """As Kubernetes lists it."""
    return address.partition(".")[0]


def tls_context(purpose: int) -> ssl.SSLContext:
    """Of one end of a line; ``purpose`` is PROTOCOL_TLS_SERVER or _CLIENT.

    The only certificate that it takes is its own, whose key is in the Secret of this session alone.
    """
    context = ssl.SSLContext(purpose)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    pem = os.environ[KEY]
    context.load_verify_locations(cadata=pem[: pem.index("-----BEGIN PRIVATE KEY")])
    # ssl reads keys from files alone
    with tempfile.NamedTemporaryFile("w", prefix="tinkerscript-pods-") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def pod_reach(address: str, kind: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to that pod for ``kind``; tried until the caller's own deadline."""
    context = tls_context(ssl.PROTOCOL_TLS_CLIENT)
    while True:
        try:
            async with asyncio.timeout(SHAKE_S):
                reader, writer = await asyncio.open_connection(address, PORT, ssl=context)
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            await asyncio.sleep(AGAIN_S)
            continue
        keep_alive(writer)
        writer.write(kind)
        return reader, writer


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """End the connection where the other machine falls silent, with and without bytes under way."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S // 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENT_S // 6)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_S * 1000)


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, kind: int = 0) -> None:
    """Pass on what comes until it ends, in frames of ``kind`` if one is given."""
    while data := await source.read(CHUNK):
        sink.write(FRAME.pack(kind, len(data)) + data if kind else data)
        await sink.drain()
