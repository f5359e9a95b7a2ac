"""A runtime's life after its registration (start.py), the same for every kind of session.

What a kill costs at each line of ``Runtime.run``:

    load       the time of loading; what a runtime before this one stored stands
    restore    the same: the journal and the last committed state are only read, and steps are
               trained to the same bits
    serve      calls under way, which clients repeat. An episode, a batch, a step and an operation
               are in the journal before they are acknowledged; a step that is not there is trained
               again, a checkpoint made again
    close      nothing on this volume. On a lost machine what was journaled since the journal's
               last copy

The parts of each kind are built by parts.py, complete, before ``restore``.
"""

import asyncio

from tinkerscript.wire.runtime import Assignment, RuntimeStage

from .background import until_one_fails
from .config import RuntimeConfig, address_advertise
from .control_plane.agent import Agent
from .control_plane.watchdog import Watchdog
from .errors import EngineDead, TrainerFailed
from .gateway.app import serve
from .health.status import Phase
from .loading.base_folder import base_fetched
from .object_store.uploads import ObjectStore
from .parts import PARTS
from .session import Parts, Session

STATUS_S = 1.0  # between two looks at how the session stands
WATCH_S = 0.5  # within which the end of an engine or a trainer is noticed


class Runtime:
    """One session's, from its assignment to its end."""

    def __init__(
        self, agent: Agent, assignment: Assignment, config: RuntimeConfig, watchdog: Watchdog
    ) -> None:
        self._agent, self._assignment, self._config, self._watchdog = (
            agent,
            assignment,
            config,
            watchdog,
        )

    async def run(self) -> None:
        """Until the end that was asked for. Raises RuntimeFault."""
        agent, config, status = self._agent, self._config, self._agent.status
        async with until_one_fails([agent_lost(agent)]):
            session = await base_fetched(
                Session(agent, self._assignment, config, ObjectStore(agent))
            )
            async with PARTS[self._assignment.kind](session) as parts:  # load and build
                if parts.clock is not None:
                    self._watchdog.watch(parts.clock)
                version = await parts.restore()
                async with (
                    parts.guarded(),
                    serve(parts.app, host=config.listen_host, port=config.listen_port) as at,
                ):
                    status.begin(Phase.WAITING, parts.waiting)
                    await parts.report()  # no ready session is shown without its episodes
                    address = address_advertise(config, at)
                    status.update(state=RuntimeStage.READY, address=address, policy_version=version)
                    background = [
                        keep_status(parts),
                        watch(parts),
                        fault_found(session),
                        *parts.background(),
                    ]
                    async with until_one_fails(background):
                        await parts.work()
                    await parts.report()
                    status.begin(Phase.SAVING, parts.ending)
                    status.update(state=RuntimeStage.STOPPING)
                await parts.close()


async def agent_lost(agent: Agent) -> None:
    """Raise the fault with which the agent lost the control plane or the lease."""
    raise await agent.wait_lost()


async def fault_found(session: Session) -> None:
    """Raise what a call found out: the engine is dead or has gone silent."""
    raise await session.faults.get()


async def keep_status(parts: Parts) -> None:
    """What the heartbeats report."""
    while True:
        await parts.report()
        await asyncio.sleep(STATUS_S)


async def watch(parts: Parts) -> None:
    """Raise as soon as a process of ours is gone, not when it is next needed."""
    while True:
        if parts.engine.dead:
            raise EngineDead(f"the engine's process {parts.engine.ending}")
        if parts.trainer is not None and parts.trainer.dead and not parts.judges_trainer:
            await parts.trainer.ready()  # raises what became of it
            raise TrainerFailed("a trainer rank ended")
        await asyncio.sleep(WATCH_S)
