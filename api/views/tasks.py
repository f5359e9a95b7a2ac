"""The queue of tasks of a session."""

from api.rest.authentication import Caller
from console.sessions.tasks import queue
from console.sessions.tasks.models import QueuedTask
from tinkerscript.wire.tasks import (
    TaskCounts,
    TaskEpisode,
    TaskFinish,
    TaskGroup,
    TaskLeases,
    TasksLease,
    TasksPut,
    TaskView,
)


def tasks_put(caller: Caller, session_id: str, body: TasksPut) -> TaskCounts:
    """Add tasks to the queue, all of them or none; workers take them from there."""
    return queue.tasks_put(project=caller.project, session_id=session_id, body=body)


def task_counts(caller: Caller, session_id: str) -> TaskCounts:
    """How many attempts wait, run, are done and have failed, and how many workers there are."""
    return queue.task_counts(project=caller.project, session_id=session_id)


def tasks_lease(caller: Caller, session_id: str, body: TasksLease) -> TaskLeases:
    """Keep the leases that a worker holds and take the next attempts."""
    return queue.tasks_lease(project=caller.project, session_id=session_id, body=body)


def task_episode_set(caller: Caller, session_id: str, task_id: str, body: TaskEpisode) -> TaskView:
    """Say in which episode an attempt is played, before it is."""
    ids = {"session_id": session_id, "task_id": task_id}
    row = queue.task_episode_set(
        project=caller.project, lease=body.lease, episode_id=body.episode_id, **ids
    )
    return _view(row)


def task_group_set(caller: Caller, session_id: str, task_id: str, body: TaskGroup) -> TaskView:
    """Say in which episodes a judged task is played, and what the judge made of them, before they
    are ended.
    """
    ids = {"session_id": session_id, "task_id": task_id}
    return _view(queue.task_group_set(project=caller.project, body=body, **ids))


def task_finish(caller: Caller, session_id: str, task_id: str, body: TaskFinish) -> TaskView:
    """Say that an attempt is done, or why not: then it waits again, or has failed for good."""
    row = queue.task_finish(
        project=caller.project,
        session_id=session_id,
        task_id=task_id,
        lease=body.lease,
        error=body.error,
        final=body.final,
    )
    return _view(row)


def _view(row: QueuedTask) -> TaskView:
    return TaskView(
        task_id=row.task_id,
        name=row.name,
        state=row.state,
        try_number=row.try_number,
        tries=row.tries,
        episode_id=row.episode_id,
        error=row.error,
    )
