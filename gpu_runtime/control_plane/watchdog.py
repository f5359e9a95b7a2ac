"""Ends a runtime that makes no progress, with a named cause and the stacks of all its processes on
the record.

A thread of its own: it sees a main loop that stands still too. Where the whole interpreter stands
still, a timer in C that this thread winds up again and again writes the stacks and ends the
process; the session's next runtime reports them.
"""

import faulthandler
import hashlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Protocol

from gpu_runtime.errors import Stuck
from gpu_runtime.health.stack_dumps import stacks_clear, stacks_collect, stacks_register
from tinkerscript.wire.events import EventKind

from .agent import Agent

log = logging.getLogger(__name__)

TICK_S = 0.5
# a gap this long between looks means that this process was stopped, not that it is stuck
PAUSE_S = 10.0
INTERPRETER_S = 120.0  # no Python ran in this process for so long
EXIT_S = 30.0  # for the runtime to end by itself once it is asked to
REPORT_S = 10.0
MAX_CHARACTERS = 200_000  # of the stacks in one event
FROZEN = "interpreter.frozen"
EXIT_CODE = 70  # of a runtime that could not end by itself (EX_SOFTWARE)


class Clock(Protocol):
    """Something that ought to advance."""

    def stuck(self) -> str | None:
        """Why it counts as stuck, or None."""
        ...

    def advance(self) -> None:
        """Record progress: the time without any starts again."""
        ...


class Watchdog:
    """``with Watchdog(agent, folder, hard_exit=True) as dog: dog.watch(clock)``; the agent's status
    is watched anyhow.

    ``hard_exit`` is for a process that is nothing but the runtime: it is ended even if its main
    loop cannot end it.
    """

    def __init__(self, agent: Agent, folder: Path, *, hard_exit: bool) -> None:
        self._agent, self._folder, self._hard_exit = agent, folder, hard_exit
        self._clocks: list[Clock] = [agent.status]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def watch(self, clock: Clock) -> None:
        """Look at this too from now on."""
        self._clocks.append(clock)

    def __enter__(self) -> "Watchdog":
        self._folder.mkdir(parents=True, exist_ok=True)
        stacks_clear(self._folder)
        stacks_register(self._folder, "runtime")
        self._report_frozen()
        if self._hard_exit:
            self._frozen = (self._folder / FROZEN).open("w")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._hard_exit:
            faulthandler.cancel_dump_traceback_later()
        # Not joined: it may be the one that waits for this very end.

    def _run(self) -> None:
        looked_at = time.monotonic()
        while not self._over.wait(TICK_S):
            if self._hard_exit:
                faulthandler.dump_traceback_later(INTERPRETER_S, exit=True, file=self._frozen)
            paused = time.monotonic() - looked_at > PAUSE_S
            looked_at = time.monotonic()
            for clock in list(self._clocks):
                if paused:
                    clock.advance()
                elif cause := clock.stuck():
                    self._give_up(cause)
                    return

    def _give_up(self, cause: str) -> None:
        log.error("stuck: %s", cause)
        self._report(cause, stacks_collect(self._folder))
        self._agent.drain(REPORT_S)
        self._agent.give_up(Stuck(cause))
        if self._hard_exit:
            time.sleep(EXIT_S)  # a runtime that ends in time takes this thread with it
            log.error("the runtime did not end by itself within %g s", EXIT_S)
            os._exit(EXIT_CODE)

    def _report(self, cause: str, stacks: str) -> None:
        stacks = stacks[-MAX_CHARACTERS:]
        data = {"name": "stuck", "cause": cause, "hint": Stuck.hint, "stacks": stacks}
        digest = hashlib.sha256(f"{cause}\n{stacks}".encode()).hexdigest()
        self._agent.report(EventKind.EVENT, data, key=f"stuck {digest}")

    def _report_frozen(self) -> None:
        """What the runtime before this one wrote when its interpreter stood still."""
        path = self._folder / FROZEN
        if path.exists() and (stacks := path.read_text(errors="replace")):
            self._report(f"the runtime's interpreter stood still for {INTERPRETER_S:.0f} s", stacks)
        path.unlink(missing_ok=True)
