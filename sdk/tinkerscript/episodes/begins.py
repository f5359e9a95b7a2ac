"""What a begin sends, and a begin inside a running event loop: it may not wait there.

What it would wait for, the end of another episode, may need that very loop.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

from pydantic import ValidationError

from tinkerscript.connection.waiting import Wait
from tinkerscript.errors import BeginWouldBlock, InvalidRequest, TinkerScriptError
from tinkerscript.outputs import sentences
from tinkerscript.wire.episodes import EpisodeBegin, EpisodeBegun

from .current_episode import in_notebook_cell

T = TypeVar("T")
BEGIN_HINT = (
    "`task` is a text of at most 512 characters, the same for all attempts at one task: give its "
    "id, or str(task). `timeout` is in seconds."
)
HELD_S = 1.0  # a begin that need not wait returns within this
# Right after one that was held: of hundreds of coroutines that begin at once, each would stop the
# loop that long.
HELD_AGAIN_S = 0.05


def begin_request(*, task: Any, eval: Any, timeout: Any, supersedes: str | None) -> EpisodeBegin:
    """What was set of it, checked. Raises InvalidRequest."""
    given = {"task": task, "eval": eval or None, "timeout_s": timeout, "supersedes": supersedes}
    try:
        return EpisodeBegin.model_validate(
            {field: value for field, value in given.items() if value is not None}
        )
    except ValidationError as failure:
        raise InvalidRequest(
            f"The episode cannot begin: {sentences(failure)}", hint=BEGIN_HINT
        ) from failure


def is_in_event_loop() -> bool:
    """Whether waiting here would stop an event loop. A notebook's own loop may be stopped: its
    cells run one by one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return not in_notebook_cell()


class LoopBegins:
    """The begins of one session inside running event loops. None of them waits."""

    def __init__(self) -> None:
        self._refused_at = -HELD_S  # time.monotonic()

    def begin(
        self, begin: Callable[[], EpisodeBegun], abandon: Callable[[str], object], wait: Wait
    ) -> EpisodeBegun:
        """What ``begin()`` returns within a second. Raises BeginWouldBlock; what begins later is
        abandoned.
        """
        begun: Future[EpisodeBegun] = Future()

        def run() -> None:
            try:
                begun.set_result(begin())
            except BaseException as failure:  # noqa: BLE001 - raised again where the result is asked for
                begun.set_exception(failure)

        threading.Thread(target=run, name="tinkerscript-begin", daemon=True).start()
        is_next = time.monotonic() < self._refused_at + HELD_S
        if not wait_for([begun], timeout=HELD_AGAIN_S if is_next else HELD_S).done:
            self._refused_at = time.monotonic()
            give_up(begun, lambda late: abandon(late.episode_id), wait)
            because = f": {wait.reason.rstrip('.')}" if wait.reason else ""
            raise BeginWouldBlock(
                f"begin_episode() has to wait{because}. Waiting here would stop the event loop."
            )
        return begun.result()


def give_up(begun: "Future[T]", abandon: Callable[[T], object], wait: Wait) -> None:
    """No one wants this begin any more: end its wait, and ``abandon`` what it may still begin."""
    wait.given_up.set()

    def give_back(done: "Future[T]") -> None:
        if not done.cancelled() and done.exception() is None:
            with contextlib.suppress(TinkerScriptError):
                abandon(done.result())

    begun.add_done_callback(give_back)
