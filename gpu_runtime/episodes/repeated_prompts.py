"""Sees attempts that a loop makes inside one episode, because it begins the episode outside the
loop.

Attempts at a task begin with the same prompt, one after another; an episode of several agents, a
fork or a retry does not look like that. A vote in one episode can, so labelled calls do not count,
nor do prompts that are sampled at the same time, and one repeated prompt alone has to be repeated
much more often. Only told while the session has no group to train: a loop that fills its groups
begins its episodes where it should.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.token_values import pack_ids

MIN_REPEATS = 4
OF_ONE_PROMPT = 4  # times as many repeats, where only one prompt is repeated
MAX_PROMPTS = 256  # that are kept of one episode
HINT = (
    "Call begin_episode() inside the loop, once for each attempt, and end_episode() after each: "
    "one episode is one "
    "attempt and has one reward. If they are calls of one run, such as a vote, name them with the "
    "header X-Agent."
)


@dataclass
class _Repeats:
    count: int = 0
    ended_at: float = 0.0  # Unix time


class RepeatedPrompts:
    """Of one session. ``grpo_n`` attempts at a task are what a loop makes of it."""

    def __init__(self, grpo_n: int) -> None:
        self._limit = max(MIN_REPEATS, grpo_n)
        self._open: dict[str, dict[bytes, _Repeats]] = {}  # by episode and prompt
        self._repeated: set[bytes] = set()  # prompts that reached the limit, in any episode
        self._told = False

    def add(self, call: CallRecord) -> str | None:
        """Count a call that was recorded. Returns, once per session, what looks wrong, in words."""
        if self._told or call.status != "completed" or call.agent or call.parent or call.drift:
            return None
        prompt = hashlib.sha256(pack_ids(call.prompt_ids_P)).digest()
        prompts = self._open.setdefault(call.episode_id, {})
        if prompt not in prompts and len(prompts) >= MAX_PROMPTS:
            return None
        seen = prompts.setdefault(prompt, _Repeats())
        seen.count += int(call.begun_at >= seen.ended_at)
        seen.ended_at = max(seen.ended_at, call.ended_at)
        if seen.count < self._limit:
            return None
        if len(self._repeated) < 2:
            self._repeated.add(prompt)
        if len(self._repeated) < 2 and seen.count < OF_ONE_PROMPT * self._limit:
            return None
        return (
            f"{seen.count} conversations of one episode began with the same prompt, one after "
            "another"
        )

    def told(self) -> None:
        """What ``add`` returned was passed on: it says nothing more."""
        self._told = True
        self._open.clear()

    def forget(self, episode_id: str) -> None:
        """An episode that is over."""
        self._open.pop(episode_id, None)


def attempts_in_one_episode(episode_id: str, reason: str) -> dict[str, Any]:
    """The event about it."""
    return {
        "name": "attempts_in_one_episode",
        "episode_id": episode_id,
        "reason": reason,
        "hint": HINT,
    }
