"""Tasks that wait for a worker: put, leased until a deadline, handed to another after it, done once.

Each change is one conditional UPDATE: of two workers that want the same attempt, one gets it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound, QuotaExceeded, StaleLease
from console.sessions.models import Session
from console.sessions.selectors import session_get
from console.sessions.tasks.models import QueuedTask
from console.users.models import Project, new_id
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.queue.tasks import (
    GROUP_MARK,
    MAX_GROUP_NAME,
    MAX_ROW_BYTES,
    LeasedTask,
    TaskCounts,
    TaskFailure,
    TaskGroup,
    TaskLeases,
    TasksLease,
    TasksPut,
)
from tinkerscript.wire.sessions import SessionKind, SessionState

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
MAX_ATTEMPTS = 100_000  # of a session, those that are over included
MAX_BYTES = 64 << 20  # of the rows that are to be played
FAILURES_SHOWN = 10


def tasks_put(*, project: Project, session_id: str, body: TasksPut) -> TaskCounts:
    """Add attempts at the end of the queue: all or none. Raises NotFound, InvalidRequest, Conflict, QuotaExceeded."""
    session = _session(project, session_id)
    sizes = [len(json.dumps(task.row)) for task in body.rows]
    for task, size in zip(body.rows, sizes, strict=True):
        if size > MAX_ROW_BYTES:
            raise InvalidRequest(
                f"The row of task {task.name!r:.80} has {size} bytes; {MAX_ROW_BYTES} are allowed.",
                hint="Put large data where the agent can read it, and its name in the row.",
            )
    grpo_n = session.config.get("grpo_n", SessionConfig.model_fields["grpo_n"].default)
    if body.judged and not body.eval and body.attempts != grpo_n:
        raise InvalidRequest(
            f"A judged task is one group of grpo_n={grpo_n} attempts; attempts is {body.attempts}.",
            hint=f"Put attempts={grpo_n}, or start a session with another grpo_n.",
        )
    rows_each, attempts = (1, body.attempts) if body.judged else (body.attempts, 1)
    names = [task.name for task in body.rows]
    with transaction.atomic():
        Session.objects.select_for_update().get(id=session.id)  # one put at a time
        _duplicates_refuse(session, names)
        _room_check(session, len(names) * body.attempts, sum(sizes) * rows_each)
        QueuedTask.objects.bulk_create(
            (
                QueuedTask(
                    session=session,
                    name=task.name,
                    row=task.row,
                    size_bytes=size,
                    eval=body.eval,
                    tries=body.tries,
                    judged=body.judged,
                    attempts=attempts,
                )
                for task, size in zip(body.rows, sizes, strict=True)
                for _ in range(rows_each)
            ),
            batch_size=1000,
        )
    return task_counts(project=project, session_id=session_id)


def task_counts(*, project: Project, session_id: str) -> TaskCounts:
    """Where the attempts of a session are, also of one that has ended. Raises NotFound."""
    rows = QueuedTask.objects.filter(session=session_get(project=project, session_id=session_id))
    now = timezone.now()
    free, live = _free(now), Q(state=RUNNING, lease_expires_at__gte=now)
    found = rows.aggregate(
        waiting=Sum("attempts", filter=free, default=0),
        running=Sum("attempts", filter=live, default=0),
        done=Sum("attempts", filter=Q(state=DONE), default=0),
        failed=Sum("attempts", filter=Q(state=FAILED), default=0),
        waiting_judged=Sum("attempts", filter=free & Q(judged=True), default=0),
        running_judged=Sum("attempts", filter=live & Q(judged=True), default=0),
        workers=Count("worker", filter=live, distinct=True),
    )
    failed = rows.filter(state=FAILED).order_by("-ended_at", "-id")[:FAILURES_SHOWN]
    return TaskCounts(**found, failures=[TaskFailure(name=row.name, error=row.error) for row in failed])


def tasks_lease(*, project: Project, session_id: str, body: TasksLease) -> TaskLeases:
    """Keep the leases that are held and take the next attempts, oldest first: judged tasks or the others, as the worker
    can. Raises NotFound, Conflict.
    """
    session, now = _session(project, session_id), timezone.now()
    until = now + timedelta(seconds=body.lease_s)
    kept = QueuedTask.objects.filter(session=session, state=RUNNING, lease__in=body.held)
    kept.update(lease_expires_at=until)
    still = set(kept.values_list("lease", flat=True))
    free, taken = _free(now), []
    rows = QueuedTask.objects.filter(free, session=session)
    for row in rows.filter(judged=body.judged).order_by("id")[: body.count]:
        lease = new_id("tlk")
        claim = QueuedTask.objects.filter(free, id=row.id, lease=row.lease)
        if claim.update(
            state=RUNNING, lease=lease, lease_expires_at=until, worker=body.worker, try_number=F("try_number") + 1
        ):
            taken.append(_leased(row, lease))
    lost = [lease for lease in body.held if lease not in still]
    others = rows.exclude(judged=body.judged) if len(taken) < body.count else rows.none()
    return TaskLeases(items=taken, lost=lost, others_waiting=others.aggregate(all=Sum("attempts", default=0))["all"])


def task_episode_set(*, project: Project, session_id: str, task_id: str, lease: str, episode_id: str) -> QueuedTask:
    """Note in which episode the holder of a lease plays. Raises NotFound, StaleLease, Conflict."""
    return _change(project, session_id, task_id, lease, episode_id=episode_id)


def task_group_set(*, project: Project, session_id: str, task_id: str, body: TaskGroup) -> QueuedTask:
    """Note the episodes of a judged task, and their outputs once it is judged.

    Raises NotFound, InvalidRequest, StaleLease, Conflict.
    """
    if body.outputs is not None and len(body.outputs) != len(body.episode_ids):
        raise InvalidRequest(f"There are {len(body.outputs)} outputs for {len(body.episode_ids)} episodes.")
    outputs = None if body.outputs is None else [output.model_dump(mode="json") for output in body.outputs]
    return _change(project, session_id, task_id, body.lease, episode_ids=body.episode_ids, outputs=outputs)


def task_finish(*, project: Project, session_id: str, task_id: str, lease: str, error: str | None) -> QueuedTask:
    """An attempt is done; with ``error`` it waits again, or has failed when it was the last try.

    Saying it again changes nothing. Raises NotFound, StaleLease, Conflict.
    """
    over = {"ended_at": timezone.now(), "row": None, "size_bytes": 0, "outputs": None}  # what is over needs no room
    if error is None:
        return _change(project, session_id, task_id, lease, state=DONE, error="", **over)
    row = _task(session_get(project=project, session_id=session_id), task_id)
    if row.try_number >= row.tries:
        return _change(project, session_id, task_id, lease, state=FAILED, error=error, **over)
    return _change(project, session_id, task_id, lease, state=WAITING, error=error, episode_id=None)


def task_errors_erase(*, session: Session, task: str | None, episode_id: str) -> None:
    """Forget what failed attempts said that may quote an episode of ``task``.

    An attempt that has failed for good names its last episode; one that is tried again does not say whose error it has.
    The group of a judged task is played under its name and a mark of its own.
    """
    may_quote = Q(episode_id=episode_id) | Q(name=task) & ~Q(state=FAILED)
    name = (task or "").rpartition(GROUP_MARK)[0]
    played = Q(name__startswith=name) if len(name) == MAX_GROUP_NAME else Q(name=name)
    rows = QueuedTask.objects.filter(session=session)
    rows.filter(may_quote | Q(judged=True) & played).update(error="", outputs=None)


def _free(now: datetime) -> Q:
    """What a worker may take: what waits, and what is of a worker whose lease has run out."""
    return Q(state=WAITING) | Q(state=RUNNING, lease_expires_at__lt=now)


def _change(project: Project, session_id: str, task_id: str, lease: str, **fields: object) -> QueuedTask:
    row = _task(session_get(project=project, session_id=session_id), task_id)
    held = QueuedTask.objects.filter(id=row.id, state=RUNNING, lease=lease)
    if not held.update(**fields) and not (row.lease == lease and row.state == fields.get("state")):
        raise StaleLease(
            f"The lease of task {task_id} ran out and another worker has it.",
            hint="Abandon its episode; do not end it.",
        )
    row.refresh_from_db()
    return row


def _task(session: Session, task_id: str) -> QueuedTask:
    row = QueuedTask.objects.filter(session=session, task_id=task_id).first()
    if row is None:
        raise NotFound("There is no such task in this session.")
    return row


def _session(project: Project, session_id: str) -> Session:
    session = session_get(project=project, session_id=session_id)
    if SessionState(session.state).is_terminal:
        raise Conflict(
            f"The session is {session.state}: it plays no more tasks.",
            hint="Start a session, and put the tasks there.",
            details={"state": session.state},
        )
    if session.kind != SessionKind.EPISODES:
        why = "serves a model" if session.kind == SessionKind.SERVING else "is driven by a Tinker client"
        raise Conflict(f"This session {why}: it has no episodes.")
    return session


def _duplicates_refuse(session: Session, names: Sequence[str]) -> None:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidRequest(f"Task {name!r:.80} is there {times} times.", hint="Give each row a name of its own.")
    there = QueuedTask.objects.filter(session=session, state__in=(WAITING, RUNNING), name__in=names)
    if found := list(there.order_by("id").values_list("name", flat=True).distinct()[:3]):
        raise Conflict(
            f"Task {found[0]!r:.80} is in the queue already.",
            hint="Put it again once its attempts are over, or ask for more attempts.",
            details={"names": found},
        )


def _room_check(session: Session, attempts: int, size_bytes: int) -> None:
    rows = QueuedTask.objects.filter(session=session)
    found = rows.aggregate(attempts=Sum("attempts", default=0), size_bytes=Sum("size_bytes", default=0))
    there, there_bytes = found["attempts"], found["size_bytes"]
    if there + attempts > MAX_ATTEMPTS:
        raise QuotaExceeded(
            f"The queue of a session has room for {MAX_ATTEMPTS} attempts; {there} are there, {attempts} were put.",
            hint="Put fewer, or start another session.",
        )
    if there_bytes + size_bytes > MAX_BYTES:
        raise QuotaExceeded(
            f"The rows to be played would have {there_bytes + size_bytes} bytes; {MAX_BYTES} are allowed.",
            hint="Put the rest when these are done.",
        )


def _leased(row: QueuedTask, lease: str) -> LeasedTask:
    return LeasedTask(
        task_id=row.task_id,
        lease=lease,
        name=row.name,
        row=row.row,
        eval=row.eval,
        try_number=row.try_number + 1,
        tries=row.tries,
        episode_id=row.episode_id,
        attempts=row.attempts,
        judged=row.judged,
        episode_ids=row.episode_ids,
        outputs=row.outputs,
    )
