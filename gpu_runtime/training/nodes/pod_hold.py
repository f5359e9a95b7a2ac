"""The runtime's own line to each of its other pods: they end when it does, and it is told when one
is taken away.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from gpu_runtime.errors import TrainerFailed

from .pods import AGAIN_S, HOLD, NOTICE, SHAKE_S, pod_name, pod_reach, pods

# Seconds in which a pod that runs, as the cluster says by giving it a name, must take a connection.
REACH_S = 45.0
NAMES_S, NAMES_NOTED_S = 1.0, 30.0

log = logging.getLogger(__name__)


async def pods_started() -> None:
    """Return once the cluster has a name for each of the other pods, which it has while the pod
    runs.

    As long as one does not, the launcher says why (an image, a machine, a quota). There is no
    deadline here but the server's for runtimes that do not register.
    """
    loop = asyncio.get_running_loop()
    began = noted = loop.time()
    for address in pods()[1:]:
        while not await _has_name(address):
            if loop.time() - noted > NAMES_NOTED_S:
                noted = loop.time()
                log.warning(
                    "pod %s does not run yet, or has no name: %.0f s",
                    pod_name(address),
                    noted - began,
                )
            await asyncio.sleep(NAMES_S)


@asynccontextmanager
async def pods_held(on_notice: Callable[[], None]) -> AsyncIterator[None]:
    """Hold the other pods for the block, if there are any. Raises TrainerFailed, which names one
    that is not reached.

    ``on_notice`` is called when one of them is about to be taken away, maybe more than once.
    """
    async with AsyncExitStack() as held:
        others = pods()[1:]
        lines = []
        for line in await asyncio.gather(
            *(_hold(address, held) for address in others), return_exceptions=True
        ):
            if isinstance(line, BaseException):
                raise line
            lines.append(line)
        tasks = [
            asyncio.create_task(_listen(address, reader, on_notice)) for address, reader in lines
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _hold(address: str, held: AsyncExitStack) -> tuple[str, asyncio.StreamReader]:
    """Open one line, closed with ``held``."""
    try:
        async with asyncio.timeout(REACH_S):
            while True:
                reader, writer = await pod_reach(address, HOLD)
                held.callback(writer.close)
                # it refuses our certificate after its own was taken
                with suppress(OSError, EOFError, TimeoutError):
                    async with asyncio.timeout(SHAKE_S):
                        if await reader.readexactly(1) == HOLD:
                            return address, reader
                writer.close()
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        raise TrainerFailed(
            f"node {pod_name(address)} is not reached: its pod runs, and took no connection of "
            "this session within"
            f" {REACH_S:g} s"
        ) from None


async def _listen(
    address: str, reader: asyncio.StreamReader, on_notice: Callable[[], None]
) -> None:
    with suppress(OSError):
        while await reader.read(1) == NOTICE:
            log.warning("the machine of pod %s is taken away", pod_name(address))
            on_notice()
    log.warning("pod %s has gone away", pod_name(address))


async def _has_name(address: str) -> bool:
    try:
        await asyncio.get_running_loop().getaddrinfo(address, None)
    except OSError:
        return False
    return True
