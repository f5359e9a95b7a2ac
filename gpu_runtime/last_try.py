"""What a runtime does for a session that fails with it: nobody comes after it who could archive its episodes."""

import asyncio
import logging
from types import TracebackType

from .agent import Agent
from .archive import Archive
from .deadlines import Phase
from .errors import ControlPlaneLost, LeaseLost, PlacementImpossible, RuntimeFault, StoreUnavailable

log = logging.getLogger(__name__)

ARCHIVE_S = 120.0  # a runtime that ended by a fault is not to stand in the way for longer
NOBODY_TAKES_IT = (LeaseLost, ControlPlaneLost, StoreUnavailable)


class LastTry:
    """``async with LastTry(agent, archive):`` around what may fail. The fault goes on its way, whatever comes of it.

    Where the session goes on with another runtime nothing is done: that one archives what is settled, and trains what
    waits. A runtime that is killed, or that is stuck, cannot do it.
    """

    def __init__(self, agent: Agent, archive: Archive) -> None:
        self._agent, self._archive = agent, archive

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._fails_with(error):
            return
        log.error("the session fails with %r: its episodes are archived first", error)
        self._agent.status.begin(Phase.SAVING, "archiving the episodes of a session that fails")
        try:
            async with asyncio.timeout(ARCHIVE_S):
                await self._archive.publish(everything=True, on_progress=self._agent.status.advance)
        except (OSError, RuntimeFault) as fault:
            log.warning("not every episode could be archived: %s", fault)

    def _fails_with(self, error: BaseException | None) -> bool:
        if isinstance(error, PlacementImpossible):
            return True
        if not isinstance(error, Exception) or isinstance(error, NOBODY_TAKES_IT):
            return False
        return self._agent.last_try and self._agent.stop_reason != "suspend"
