"""``python -m console.server.uvicorn``: a web server's process, on the address of the settings or
on a given socket.

With ``--worker`` it is one of several on one socket (console.server.web_processes). With
``--lease`` it is the lease process, which serves runtimes alone; it listens on the port of that,
where one is set.

It is uvicorn because uvicorn makes an application wait for a client that reads slowly. A server
that takes all that it is given keeps in memory what such a client has not read, and the live
channel, which would send it fewer and longer pages, never learns of it.
"""

import argparse
import gc
import os
import resource
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tinkerscript.processes.bounded_http import BoundedHttp, ReadingBound
from tinkerscript.processes.tracing import tracing_begin

# Longer than a proxy or client keeps an idle connection (Caddy 120 s, nginx 60 s, aiohttp 15 s): a
# request never meets one that closes.
KEEP_ALIVE_S = 130
GRACE_S = 3  # for responses on their way; `manage.py up` kills after five seconds
# Files that are not connections: the database, the store, runtimes' gateways, logs.
OTHER_FILES = 256


class BoundedWebSocket(ReadingBound, WebSocketsSansIOProtocol):
    """uvicorn's protocol, with a bound on the time that a client may take to read what it was sent:
    wherever something is sent, and wherever uvicorn closes, what is unread by then has its time.

    Without it a client that reads nothing keeps its connection, and its place among the watchers,
    for ever: where it answers no ping either, and where its key is revoked, the connection is
    closed only once all that was sent is read.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading_ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():  # the client has said that it goes
            self._reading_begins()

    async def send(self, message: Any) -> None:
        await super().send(message)
        self._reading_begins()

    def send_keepalive_ping(self) -> None:
        super().send_keepalive_ping()
        self._reading_begins()


def files_raise() -> int:
    """Let this process open as many files as the system allows it; returns how many that is."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def port_of(*, lease: bool) -> int:
    """The port to listen on where no socket is given: the lease process has the web server's where
    it has none.
    """
    from django.conf import settings

    return settings.LEASE_PORT if lease and settings.LEASE_PORT else settings.PORT


def config_make(*, lease: bool) -> uvicorn.Config:
    """What uvicorn is told, of a web server's process or of the lease process. Django's settings
    are known.
    """
    from django.conf import settings

    return uvicorn.Config(
        "api.lease_process:application" if lease else "console.asgi:application",
        host=settings.HOST,
        port=port_of(lease=lease),
        http=BoundedHttp,
        ws=BoundedWebSocket,
        # Past it a request is refused with 503, and no connection is left without a file.
        limit_concurrency=files_raise() - OTHER_FILES,
        lifespan="off",  # Channels has none
        log_config=None,  # Django's settings say how to log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws_per_message_deflate=False,  # compressing for each client would cost more than all else
        timeout_graceful_shutdown=GRACE_S,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fd", type=int, help="a listening socket that the parent made")
    parser.add_argument(
        "--lease",
        action="store_true",
        help="serve what runtimes ask under their lease, nothing else",
    )
    parser.add_argument(
        "--worker", help="the name of this one of several web processes that share a socket"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.conf import settings

    from console.server.web_processes import probe_listener, worker_metrics_begin

    if options.worker:
        worker_metrics_begin(options.worker)
    config = config_make(lease=options.lease)
    if settings.TRACES_URL and not options.lease:
        tracing_begin(settings.TRACES_URL, "tinkerscript")
    config.load()
    gc.collect()
    gc.freeze()  # what is loaded by now stays: collections that look at it hold every stream up
    sockets = [socket.socket(fileno=options.fd)] if options.fd is not None else None
    if sockets and options.worker:
        sockets.append(probe_listener(options.worker))
    uvicorn.Server(config).run(sockets)


if __name__ == "__main__":
    main()
