"""What runs in the pods beside the runtime's: it starts ranks that the runtime asks for, and ends
with the runtime.
"""

import asyncio
import logging
import os
import signal
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from .pods import (
    CODE,
    ERRORS,
    FRAME,
    HOLD,
    NOTICE,
    OUTPUT,
    OWN_ADDRESS,
    PORT,
    RUN,
    SHAKE_S,
    keep_alive,
    pod_index,
    pods,
    pump,
    tls_context,
)
from .remote_rank import MODULE

LAST_WORDS_S = 5.0  # what a rank that has ended wrote is passed on within

log = logging.getLogger(__name__)


class PodHost:
    """Serves one runtime. ``run`` returns once the runtime is gone, or at a SIGTERM before it has
    come.
    """

    def __init__(self) -> None:
        self._runtimes: set[asyncio.StreamWriter] = set()  # one at a time
        self._ranks: set[Process] = set()
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Listen on this pod's address alone."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._noticed)
        context = tls_context(ssl.PROTOCOL_TLS_SERVER)
        server = await asyncio.start_server(
            self._connected,
            os.environ[OWN_ADDRESS],
            PORT,
            ssl=context,
            ssl_handshake_timeout=SHAKE_S,
        )
        try:
            log.info("waiting for the runtime in %s", pods()[0])
            await self._over.wait()
        finally:
            server.close()
            for rank in self._ranks:
                _kill(rank)

    def _noticed(self) -> None:
        """This machine is taken away: the runtime stores what it has, and its ranks are needed for
        that.
        """
        for runtime in self._runtimes:
            runtime.write(NOTICE)
        if not self._runtimes:
            self._over.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keep_alive(writer)
        try:
            async with asyncio.timeout(SHAKE_S):
                kind = await reader.readexactly(1)
            if kind == HOLD:
                await self._hold(reader, writer)
            elif kind == RUN:
                await self._run_rank(reader, writer)
        except (OSError, EOFError, TimeoutError) as error:
            log.warning("a connection ended: %s", error or type(error).__name__)
        finally:
            writer.close()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._runtimes.add(writer)
        try:
            writer.write(HOLD)
            while await reader.read(1):
                pass
        finally:
            log.info("the runtime is gone")
            self._over.set()

    async def _run_rank(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        self._ranks.add(rank)
        assert rank.stdin and rank.stdout and rank.stderr, "all three are pipes"
        outputs = [
            asyncio.create_task(pump(rank.stdout, writer, OUTPUT)),
            asyncio.create_task(pump(rank.stderr, writer, ERRORS)),
        ]
        commands, ended = (
            asyncio.create_task(pump(reader, rank.stdin)),
            asyncio.create_task(rank.wait()),
        )
        try:
            # Its commands end where the runtime closes the line: it is not wanted any more.
            await asyncio.wait({commands, ended}, return_when=asyncio.FIRST_COMPLETED)
            _kill(rank)
            code = await ended
            await asyncio.wait(outputs, timeout=LAST_WORDS_S)
            writer.write(FRAME.pack(CODE, 1) + bytes([code if code >= 0 else 128 - code]))
            await writer.drain()
        finally:
            _kill(rank)
            self._ranks.discard(rank)
            for task in (*outputs, commands, ended):
                task.cancel()
            await asyncio.gather(*outputs, commands, ended, return_exceptions=True)


def _kill(rank: Process) -> None:
    with suppress(ProcessLookupError):
        rank.kill()


def main() -> int:
    """Serve the runtime of this pod's Job."""
    log.info("pod %d of %d", pod_index() + 1, len(pods()))
    asyncio.run(PodHost().run())
    return 0
