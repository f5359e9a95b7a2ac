"""The attempts of a run: how often each task is played, and what it is called on the server."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tinkerscript.arguments import count, function_or_none, wrong
from tinkerscript.connection.user_calls import each_within
from tinkerscript.errors import InvalidRequest

from .judging import group_key

NAME_TIMEOUT_S = 60.0  # of one task


@dataclass(frozen=True)
class Attempt:
    """``group`` is the task's name on the server, of which grpo_n attempts are compared."""

    task: Any
    name: str
    retries_left: int
    group: str


def plan(
    tasks: Iterable[Any],
    *,
    attempts: int,
    epochs: int,
    retries: int,
    task_name: Callable[[Any], str] | None,
    judged: bool = False,
) -> "deque[Attempt]":
    """Every attempt, task by task, so that groups are full as early as can be. Raises
    InvalidRequest, WaitTimeout.

    With ``judged`` each group has a name of its own.
    """
    attempts, epochs = count("attempts", attempts, least=1), count("epochs", epochs, least=1)
    retries = count("retries", retries, least=0)
    function_or_none("task_name", task_name)
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable):
        raise InvalidRequest(
            f"tasks is one {type(tasks).__name__}.", hint="Give a list of tasks: [task, ...]."
        )
    named = list(tasks_named(tasks, task_name))
    for task, name in named:
        if not isinstance(name, str) or not 0 < len(name) <= 512:
            raise wrong(f"task_name({task!r:.40})", name, "a text of 1 to 512 characters")
    if not named:
        raise InvalidRequest(
            "There are no tasks.", hint="Give a list of them, or look at the split that was read."
        )
    groups = (
        (task, name, group_key(name) if judged else name)
        for _ in range(epochs)
        for task, name in named
    )
    return deque(
        Attempt(task, name, retries, group) for task, name, group in groups for _ in range(attempts)
    )


def tasks_named(
    tasks: Iterable[Any], task_name: Callable[[Any], str] | None
) -> Iterator[tuple[Any, Any]]:
    """Each task with what it is called on the server. Raises WaitTimeout for a ``task_name`` that
    hangs.
    """
    if task_name is None:
        return ((task, name_of(task)) for task in tasks)
    return each_within(task_name, tasks, timeout_s=NAME_TIMEOUT_S, name="task_name")


def name_of(task: Any) -> str:
    """The key of a task: a text is its own key, anything else has the hash of its JSON."""
    if isinstance(task, str) and 0 < len(task) <= 200:
        return task
    try:
        text = json.dumps(task, sort_keys=True)
    except (TypeError, ValueError) as failure:
        raise InvalidRequest(
            f"A task of type {type(task).__name__} has no name: {failure}",
            hint="Give task_name, a function from a task to a text that is its own.",
        ) from failure
    return "task-" + hashlib.sha256(text.encode()).hexdigest()[:16]
