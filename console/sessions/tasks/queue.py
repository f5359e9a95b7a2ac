"""Tasks that wait for a worker: put, leased until a deadline, handed to another after it, done
once.

Each change is one conditional UPDATE: of two workers that want the same attempt, one gets it.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound, StaleLease
from console.sessions.models import Session
from console.sessions.selectors import session_get
from console.sessions.tasks.models import DONE, FAILED, RUNNING, WAITING, QueuedTask
from console.sessions.tasks.room import (
    duplicates_refuse,
    json_bytes,
    outputs_room_check,
    room_check,
)
from console.users.models import Project, new_id
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionKind, SessionState
from tinkerscript.wire.tasks import (
    GROUP_MARK,
    MAX_GROUP_NAME,
    MAX_OUTPUTS_BYTES,
    MAX_ROW_BYTES,
    TRIES_OF_ATTEMPT,
    LeasedTask,
    TaskCounts,
    TaskFailure,
    TaskGroup,
    TaskLeases,
    TasksLease,
    TasksPut,
)

MAX_LEASED_BYTES = 4 << 20  # of one reply
# tasks of the other kind, at each question of a worker that finds none of its own
MAX_OTHERS_COUNTED = 1000
FAILURES_SHOWN = 10


def tasks_put(*, project: Project, session_id: str, body: TasksPut) -> TaskCounts:
    """Add attempts at the end of the queue: all or none. Raises NotFound, InvalidRequest, Conflict,
    QuotaExceeded.
    """
    session = _session(project, session_id)
    sizes = [json_bytes(task.row) for task in body.rows]
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
        Session.objects.select_for_update(no_key=True).get(id=session.id)  # one put at a time
        duplicates_refuse(session, names)
        room_check(session, len(names) * body.attempts, sum(sizes) * rows_each)
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
    return TaskCounts(
        **found, failures=[TaskFailure(name=row.name, error=row.error) for row in failed]
    )


def tasks_lease(*, project: Project, session_id: str, body: TasksLease) -> TaskLeases:
    """Keep the leases that are held and take the next attempts, oldest first: judged tasks or the
    others, as the worker can. What is given out has at most MAX_LEASED_BYTES; the worker asks
    again. Raises NotFound, Conflict.
    """
    session, now = _session(project, session_id), timezone.now()
    until = now + timedelta(seconds=body.lease_s)
    kept = QueuedTask.objects.filter(session=session, state=RUNNING, lease__in=body.held)
    kept.update(lease_expires_at=until)
    still = set(kept.values_list("lease", flat=True))
    free, taken = _free(now), []
    rows = QueuedTask.objects.filter(free, session=session)
    next_ids, has_room = _next(rows.filter(judged=body.judged), body)
    for row in QueuedTask.objects.filter(id__in=next_ids).order_by("id"):
        lease = new_id("tlk")
        claim = QueuedTask.objects.filter(free, id=row.id, lease=row.lease)
        if claim.update(
            state=RUNNING,
            lease=lease,
            lease_expires_at=until,
            worker=body.worker,
            try_number=F("try_number") + 1,
        ):
            taken.append(_leased(row, lease))
    lost = [lease for lease in body.held if lease not in still]
    others = rows.filter(judged=not body.judged).order_by("id").values_list("attempts", flat=True)
    return TaskLeases(
        items=taken, lost=lost, others_waiting=sum(others[:MAX_OTHERS_COUNTED]) if has_room else 0
    )


def task_episode_set(
    *, project: Project, session_id: str, task_id: str, lease: str, episode_id: str
) -> QueuedTask:
    """Note in which episode the holder of a lease plays. Raises NotFound, StaleLease, Conflict."""
    return _change(project, session_id, task_id, lease, episode_id=episode_id)


def task_group_set(
    *, project: Project, session_id: str, task_id: str, body: TaskGroup
) -> QueuedTask:
    """Note the episodes of a judged task, and their outputs once it is judged.

    Once it is judged no episode is added; to take the outputs back, name no episodes. Raises
    NotFound, InvalidRequest, QuotaExceeded, StaleLease, Conflict.
    """
    row = _task(session_get(project=project, session_id=session_id), task_id)
    if not row.judged:
        raise InvalidRequest(f"Task {row.name!r:.80} is not judged: it has one episode.")
    if len(body.episode_ids) > TRIES_OF_ATTEMPT * row.attempts:
        raise InvalidRequest(
            f"{len(body.episode_ids)} episodes are too many for {row.attempts} attempts."
        )
    if body.outputs is not None and len(body.outputs) != len(body.episode_ids):
        raise InvalidRequest(
            f"There are {len(body.outputs)} outputs for {len(body.episode_ids)} episodes."
        )
    outputs = (
        None
        if body.outputs is None
        else [output.model_dump(mode="json") for output in body.outputs]
    )
    fields: dict[str, Any] = {
        "episode_ids": body.episode_ids,
        "outputs": outputs,
        "size_bytes": json_bytes(row.row),
    }
    if outputs is None:
        # A message that was under way while the group was judged must not take its rewards away.
        allowed = Q(outputs__isnull=True) if body.episode_ids else Q()
        return _change(project, session_id, task_id, body.lease, allowed=allowed, **fields)
    more_bytes = json_bytes(outputs)
    if more_bytes > MAX_OUTPUTS_BYTES:
        raise InvalidRequest(
            f"The outputs of task {row.name!r:.80} have {more_bytes} bytes; {MAX_OUTPUTS_BYTES} "
            "are allowed.",
            hint="Keep less in their metadata.",
        )
    with transaction.atomic():
        Session.objects.select_for_update(no_key=True).get(id=row.session_id)  # one at a time
        outputs_room_check(row, fields["size_bytes"] + more_bytes)
        fields["size_bytes"] += more_bytes
        return _change(project, session_id, task_id, body.lease, **fields)


def task_finish(
    *,
    project: Project,
    session_id: str,
    task_id: str,
    lease: str,
    error: str | None,
    final: bool = False,
) -> QueuedTask:
    """An attempt is done; with ``error`` it waits again, or has failed when it was the last try or
    is ``final``.

    Saying it again changes nothing. Raises NotFound, StaleLease, Conflict.
    """
    if error is None:
        return _change(project, session_id, task_id, lease, state=DONE, error="", **_over())
    row = _task(session_get(project=project, session_id=session_id), task_id)
    if final or row.try_number >= row.tries:
        return _change(project, session_id, task_id, lease, state=FAILED, error=error, **_over())
    return _change(project, session_id, task_id, lease, state=WAITING, error=error, episode_id=None)


def task_errors_erase(*, session: Session, task: str | None, episode_id: str) -> None:
    """Forget what failed attempts said that may quote an episode of ``task``.

    An attempt that has failed for good names its last episode; one that is tried again does not say
    whose error it has. The group of a judged task is played under its name and a mark of its own.
    Where its rewards are decided, the judge may have quoted any of its episodes beside each of
    them: that group has failed.
    """
    may_quote = Q(episode_id=episode_id) | Q(name=task) & ~Q(state=FAILED)
    name = (task or "").rpartition(GROUP_MARK)[0]
    played = Q(name__startswith=name) if len(name) == MAX_GROUP_NAME else Q(name=name)
    rows = QueuedTask.objects.filter(session=session)
    rows.filter(may_quote | Q(judged=True) & played).update(error="")
    decided = rows.filter(judged=True, outputs__isnull=False).values_list("id", "episode_ids")
    quoting = [id_ for id_, episode_ids in decided if episode_id in episode_ids]
    rows.filter(id__in=quoting).update(
        state=FAILED, error="An episode of it was erased.", **_over()
    )


def _free(now: datetime) -> Q:
    """What a worker may take: what waits, and what is of a worker whose lease has run out."""
    return Q(state=WAITING) | Q(state=RUNNING, lease_expires_at__lt=now)


def _next(rows: QuerySet[QueuedTask], body: TasksLease) -> tuple[list[int], bool]:
    """The ids of the oldest of ``rows`` that a worker may take, and whether it has room for more
    than there are.

    Of judged tasks those whose attempts it has room for: one at least, be it larger, where it plays
    nothing else.
    """
    ids: list[int] = []
    attempts = size_bytes = 0
    for id_, its_attempts, its_bytes in rows.order_by("id").values_list(
        "id", "attempts", "size_bytes"
    )[: body.count]:
        attempts, size_bytes = attempts + its_attempts, size_bytes + its_bytes
        if (attempts > body.count and (ids or body.held)) or (
            size_bytes > MAX_LEASED_BYTES and ids
        ):
            return ids, False
        ids.append(id_)
    return ids, attempts < body.count


def _over() -> dict[str, Any]:
    """What a row has that is over: it needs no room."""
    return {"ended_at": timezone.now(), "row": None, "size_bytes": 0, "outputs": None}


def _change(
    project: Project,
    session_id: str,
    task_id: str,
    lease: str,
    allowed: Q | None = None,
    **fields: object,
) -> QueuedTask:
    row = _task(session_get(project=project, session_id=session_id), task_id)
    held = QueuedTask.objects.filter(id=row.id, state=RUNNING, lease=lease)
    changed = held.filter(allowed or Q()).update(**fields)
    if not changed and allowed is not None and held.exists():
        raise Conflict(f"The rewards of task {task_id} are decided: no episode is added.")
    if not changed and not (row.lease == lease and row.state == fields.get("state")):
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
        why = (
            "serves a model"
            if session.kind == SessionKind.SERVING
            else "is driven by a Tinker client"
        )
        raise Conflict(f"This session {why}: it has no episodes.")
    return session


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
