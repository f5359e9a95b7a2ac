"""The first seconds of a runtime: it registers, and only then loads the libraries that take their
time.

Importing torch and vLLM takes seconds on an idle machine and minutes on a busy one. A runtime that
registered first says by its heartbeats that it is there, and is not replaced for being slow to
start.
"""

import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tinkerscript.processes.tracing import tracing_begin, tracing_end
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import RuntimeStage

from .config import RuntimeConfig
from .control_plane.agent import Agent
from .control_plane.watchdog import Watchdog
from .engine.vllm_process import imports_begin
from .errors import FinalFault, InputUnusable, RuntimeFault, ServerDiffers
from .failures.final_cause import final_cause
from .health.resources import ResourceSampler
from .health.status import Phase
from .loading.warm import libraries_wait

log = logging.getLogger(__name__)


async def start(
    config: RuntimeConfig,
    *,
    hard_exit: bool = False,
    on_agent: Callable[[Agent], None] = lambda agent: None,
) -> None:
    """Serve one session until the control plane asks for the end. Raises RuntimeFault when it
    cannot go on.

    ``hard_exit``: this process is nothing but the runtime, and is ended even if its main loop
    cannot end it. ``on_agent`` is given the agent, which can be told that this machine is taken
    away.
    """
    async with traced_to_the_end(), Agent(config) as agent:
        on_agent(agent)
        try:
            assignment = await agent.register()
        except ServerDiffers as fault:
            log.error("%s: %s", fault.code, fault)
            await agent.fail(fault.code, str(fault), fault.hint)
            return
        if assignment.traces_url:
            tracing_begin(assignment.traces_url, "tinkerscript-runtime")
        agent.status.begin(Phase.LOADING, "loading the libraries")
        if hard_exit:
            imports_begin()
        with (
            ResourceSampler(config.runtime_dir, agent.status.sampled),
            Watchdog(agent, config.runtime_dir / "stacks", hard_exit=hard_exit) as watchdog,
        ):
            try:
                await libraries_wait()
                from .run import Runtime  # and all that a session is made of

                await Runtime(agent, assignment, config, watchdog).run()
            except FinalFault as fault:
                log.error("%s: %s", fault.code, fault)
                await agent.fail(fault.code, str(fault), fault.hint)  # no restart would change it
            except Exception as error:
                report_end(agent, error)
                if cause := final_cause(error, is_start=agent.status.state is RuntimeStage.LOADING):
                    await agent.fail(InputUnusable.code, cause, InputUnusable.hint)
                raise


@asynccontextmanager
async def traced_to_the_end() -> AsyncIterator[None]:
    """Export the last spans after the block, and so after the agent has said why the runtime
    ends.
    """
    try:
        yield
    finally:
        tracing_end()


def report_end(agent: Agent, error: Exception) -> None:
    """Put on the session's record why this runtime ends; after the lease is lost nothing may be
    written.
    """
    code = error.code if isinstance(error, RuntimeFault) else "runtime_fault"
    hint = error.hint if isinstance(error, RuntimeFault) else ""
    trace = (
        ""
        if isinstance(error, RuntimeFault)
        else "".join(traceback.format_exception(error))[-8000:]
    )
    data = {
        "name": "runtime_fault",
        "code": code,
        "cause": str(error)[:4000],
        "hint": hint,
        "trace": trace,
    }
    agent.report(EventKind.EVENT, data, key=f"runtime_fault {time.time_ns()}")
