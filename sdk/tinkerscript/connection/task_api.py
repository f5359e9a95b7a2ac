"""The queue of tasks of a session by REST: one request per method."""

from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.tasks import (
    LeasedTask,
    TaskCounts,
    TaskEpisode,
    TaskFinish,
    TaskGroup,
    TaskLeases,
    TasksLease,
    TasksPut,
    TaskView,
)

from .transport import Transport


class TaskApi:
    """Example: ``TaskApi(Transport(base_url, api_key), "ses_9f2c41d07ab3e85f").counts()``"""

    def __init__(self, transport: Transport, session_id: str) -> None:
        self._transport, self._path = transport, f"/v1/sessions/{session_id}/tasks"

    def put_page(self, body: TasksPut) -> TaskCounts:
        """Add these tasks, all or none. Raises Conflict for one that is there already."""
        return self._transport.request("POST", self._path, body=body, response=TaskCounts)

    def counts(self) -> TaskCounts:
        """How many attempts wait, run, are done and have failed, and how many workers there are."""
        return self._transport.request("GET", self._path, response=TaskCounts)

    def lease(self, body: TasksLease) -> TaskLeases:
        """Keep the leases that are held and take more. Raises Conflict when the session has
        ended.
        """
        return self._transport.request(
            "POST", f"{self._path}/lease", body=body, response=TaskLeases
        )

    def episode_set(self, task: LeasedTask, episode_id: str) -> TaskView:
        """Say in which episode a task is played. Raises StaleLease when another worker has it."""
        body = TaskEpisode(lease=task.lease, episode_id=episode_id)
        return self._transport.request(
            "POST", f"{self._path}/{task.task_id}/episode", body=body, response=TaskView
        )

    def group_set(
        self, task: LeasedTask, episode_ids: list[str], outputs: list[WorkflowOutput] | None = None
    ) -> TaskView:
        """Say in which episodes a judged task is played, and what its judge made of them, before
        they are ended.

        Raises StaleLease when another worker has it.
        """
        body = TaskGroup(lease=task.lease, episode_ids=episode_ids, outputs=outputs)
        return self._transport.request(
            "POST", f"{self._path}/{task.task_id}/group", body=body, response=TaskView
        )

    def finish(
        self, task: LeasedTask, error: str | None = None, *, final: bool = False
    ) -> TaskView:
        """It is done, or why not; ``final``: it is not tried again. Raises StaleLease when another
        worker has it.
        """
        said = {} if error is None else {"error": error[:500]} | ({"final": True} if final else {})
        body = TaskFinish.model_validate({"lease": task.lease, **said})
        return self._transport.request(
            "POST", f"{self._path}/{task.task_id}/finish", body=body, response=TaskView
        )
