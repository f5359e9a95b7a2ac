"""Engine and trainer on one device take turns: its memory does not hold both at work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_runtime.interfaces import Engine


@asynccontextmanager
async def device_lent(engine: Engine) -> AsyncIterator[None]:
    """Where engine and trainer share a device, the engine gives up its memory there meanwhile.
    Raises EngineDead.
    """
    if engine.shares_device:
        await engine.sleep()
    try:
        yield
    finally:
        if engine.shares_device:
            await engine.wake()
