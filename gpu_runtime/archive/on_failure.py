"""What a runtime does for a session that fails with it: no other runtime follows that could archive
its episodes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import ControlPlaneLost, LeaseLost, RuntimeFault, StoreUnavailable
from gpu_runtime.failures.final_cause import final_cause
from gpu_runtime.health.status import Phase
from tinkerscript.wire.runtime import RuntimeStage, StopReason

from .archive import Archive

log = logging.getLogger(__name__)

ARCHIVE_S = 120.0  # a runtime that ended by a fault must not delay the session's end for longer
NOTHING_CAN_BE_STORED = (LeaseLost, ControlPlaneLost, StoreUnavailable)


@asynccontextmanager
async def archive_on_failure(
    agent: Agent, archive: Archive, *, timeout_s: float = ARCHIVE_S
) -> AsyncIterator[None]:
    """Around what may fail. The fault is raised again, whether the episodes could be archived or
    not.

    Where the session goes on with another runtime nothing is done: that one archives what is
    settled, and trains what waits. A runtime that is killed, or that is stuck, cannot do it.
    """
    try:
        yield
    except Exception as error:
        if _ends_session(agent, error):
            await _archive_all(agent, archive, error, timeout_s)
        raise


async def _archive_all(agent: Agent, archive: Archive, error: Exception, timeout_s: float) -> None:
    log.error("the session fails with %r: its episodes are archived first", error)
    agent.status.begin(Phase.SAVING, "archiving the episodes of a session that fails")
    try:
        async with asyncio.timeout(timeout_s):
            await archive.publish(everything=True, on_progress=agent.status.advance)
    except (OSError, RuntimeFault) as fault:
        log.warning("not every episode could be archived: %s", fault)


def _ends_session(agent: Agent, error: Exception) -> bool:
    if final_cause(error, is_start=agent.status.state is RuntimeStage.LOADING):
        return True
    if isinstance(error, NOTHING_CAN_BE_STORED):
        return False
    return agent.is_final_attempt and agent.stop_reason is not StopReason.SUSPEND
