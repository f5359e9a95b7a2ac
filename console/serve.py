"""``python -m console.serve``: the process of the web server, on the address of the settings or on a given socket.

It is uvicorn because uvicorn makes an application wait for a client that reads slowly. A server that takes whatever it
is given keeps in memory what such a client has not read, and the live channel, which would send it fewer and longer
pages, never learns of it.
"""

import argparse
import gc
import os
import socket
from collections.abc import Sequence

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

GRACE_S = 3  # for answers on their way; `manage.py up` kills after five seconds
HEAD_LIMIT_BYTES = 64 << 10
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHeads(HttpToolsProtocol):
    """Refuses a request whose line and headers have no end: the parser would keep them all."""

    head_bytes, is_in_head = 0, False

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_bytes, self.is_in_head = 0, True

    def on_headers_complete(self) -> None:
        self.is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_in_head:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_LIMIT_BYTES and not self.transport.is_closing():
                self.transport.write(TOO_LARGE)
                self.transport.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fd", type=int, help="a listening socket that the parent made")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.conf import settings

    config = uvicorn.Config(
        "console.asgi:application",
        host=settings.HOST,
        port=settings.PORT,
        http=BoundedHeads,
        lifespan="off",  # Channels has none
        log_config=None,  # Django's settings say how to log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_per_message_deflate=False,  # compressing for each client would cost more than all else
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    gc.collect()
    gc.freeze()  # what is loaded by now stays: collections that look at it hold every stream up
    sockets = [socket.socket(fileno=options.fd)] if options.fd is not None else None
    uvicorn.Server(config).run(sockets)


if __name__ == "__main__":
    main()
