"""Waits until everything that a session can train has been trained, and reports what is left
over.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping

from tinkerscript.arguments import deadline_after
from tinkerscript.connection.session_api import SessionApi, describe, pages, raise_if_over
from tinkerscript.errors import TinkerScriptError, WaitTimeout
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import SampleFate
from tinkerscript.wire.sessions import Accounting, SessionState, SessionView

POLL_INTERVAL_S = 1.0
log = logging.getLogger("tinkerscript")


def flush(session: SessionApi, timeout_s: float) -> Accounting:
    """As Session.flush()."""
    deadline = deadline_after(timeout_s)
    while True:
        view = session.status()
        raise_if_over(view)
        waiting = waiting_groups(session)
        if waiting is not None and not _step_is_due(view, waiting):
            break
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"Session {session.id} still trains after {timeout_s:g} s: "
                f"{left_over(view.config, waiting or {})}.",
                hint="Wait longer, or look at its events: tinkerscript events " + session.id,
            )
        session.pause(POLL_INTERVAL_S)
    if waiting:
        log.warning(
            "What is left of session %s is not enough for a step: %s.",
            session.id,
            _left_over(view, waiting),
        )
    return session.accounting()


def warn_about_waiting(session: SessionApi) -> None:
    """Say in the log what was ended and will not be trained if the session stops now."""
    try:
        view = session.status()
        is_ready = view.state is SessionState.READY  # to ask another would wake it, or wait for it
        stands = session.accounting() if is_ready else view.accounting
        groups = waiting_groups(session) if is_ready and stands.waiting else None
    except TinkerScriptError as failure:
        log.debug("What waits in session %s is not known: %s", session.id, failure)
        return
    if stands.waiting and not view.state.is_terminal:
        left, advice = (
            describe(view),
            "Call flush() before close() to train the batches that are complete",
        )
        if groups is not None:
            left = _left_over(view, groups)
            if not _step_is_due(view, groups):
                advice = (
                    "They fill no batch: play as many tasks as are whole batches, each grpo_n times"
                )
        log.warning(
            "Session %s closes while %d episodes wait to be trained, which they never will be then "
            "(%s). %s.",
            session.id, stands.waiting, left, advice,
        )  # fmt: skip
    if stands.stale:
        level = "set aside, which is no loss"
        if view.policy_version == 0:
            level = (
                "set aside, and no step was done: nothing was learned. Raise the temperature, "
                "choose tasks that are "
                "neither too easy nor too hard, reward parts of the way, or raise grpo_n"
            )
        log.warning(
            "%d of the %d training episodes of session %s were not trained. Those of groups with "
            "equal rewards were %s. `tinkerscript events %s` has the reason of each.",
            stands.stale,
            stands.begun - stands.eval,
            session.id,
            level,
            session.id,
        )


def waiting_groups(session: SessionApi) -> Counter[str] | None:
    """How many episodes of each group wait to be trained; None when a step changed that while it
    was read.
    """
    left = session.accounting().waiting
    groups: Counter[str] = Counter()
    if left <= 0:
        return groups
    for page in pages(session.episode_page):
        accepted = [
            e.group_key or e.episode_id for e in page.items if e.fate is SampleFate.ACCEPTED
        ]
        groups.update(accepted)
        left -= len(accepted)
        if left <= 0:
            return groups
    return None


def left_over(config: SessionConfig, waiting: Mapping[str, int]) -> str:
    """What waits, in words: full groups of those that a step needs, and the others with what they
    lack.
    """
    full = sum(count // config.grpo_n for count in waiting.values())
    parts = {
        group: count % config.grpo_n for group, count in waiting.items() if count % config.grpo_n
    }
    said = f"{full} of {config.tasks_per_batch} groups are full"
    if parts:
        group, count = next(iter(parts.items()))
        said += (
            f"; {len(parts)} are not, such as {group[:60]!r} with {count} of {config.grpo_n} "
            "attempts"
        )
    return said


def _left_over(view: SessionView, waiting: Counter[str]) -> str:
    if _is_over(view):
        return f"max_steps={view.config.max_steps} is reached"
    return left_over(view.config, waiting)


def _step_is_due(view: SessionView, waiting: Counter[str]) -> bool:
    full = sum(count // view.config.grpo_n for count in waiting.values())
    return not _is_over(view) and full >= view.config.tasks_per_batch


def _is_over(view: SessionView) -> bool:
    return view.config.max_steps is not None and view.policy_version >= view.config.max_steps
