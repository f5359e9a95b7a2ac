"""What users do with sessions: create, stop, suspend, wake, delete."""

import shutil

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.catalogue.base_models import base_model_resolve
from console.errors import Conflict, NotFound
from console.live.local_wakes import reconcilers_wake
from console.live.models import EventRecord
from console.live.services import event_note, event_record, events_delete
from console.sessions.dry_run import config_decide
from console.sessions.limits.devices import devices_kept
from console.sessions.limits.places import ranks_fit_nodes
from console.sessions.limits.quotas import (
    device_quota_check,
    person_queue_check,
    session_quota_check,
)
from console.sessions.models import Checkpoint, Removal, RuntimeSpan, Session
from console.sessions.selectors import Route, held_check, route_of, session_get, tags_text
from console.sessions.starting_points import StartingPoint, start_check
from console.sessions.states import ENDED, Actor, Desired
from console.sessions.transitions import session_move
from console.users.models import ApiKey, Project, User
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import Evaluation, EventKind
from tinkerscript.wire.sessions import SessionCreate, SessionKind, SessionState, SessionUpdate

STOP_TRIES = 20  # a session's state may change between the look and the move; so often it does not


def session_create(
    *,
    project: Project,
    body: SessionCreate,
    key: ApiKey | None = None,
    person: User | None = None,
    kind: SessionKind = SessionKind.EPISODES,
    start: StartingPoint | None = None,
) -> Session:
    """A queued session, started by ``person`` with ``key`` (None: in the console).

    ``start``: what it begins from, or serves, if that is not the base model that ``body`` names.

    Raises what ``config_decide`` raises, QuotaExceeded, and NotFound for a checkpoint of it that
    was deleted meanwhile.
    """
    start = start or StartingPoint(body.base_model)
    config, _, _ = config_decide(body=body, key=key, kind=kind, start=start)
    began = start.started_from if kind is SessionKind.EPISODES else None
    with transaction.atomic():
        person_queue_check(person=person)
        session_quota_check(project=project, devices=config.devices or 0)
        for checkpoint_id in start.held:
            _hold(checkpoint_id)
        session = Session.objects.create(
            project=project,
            key=key,
            kind=kind,
            person=person,
            name=body.name,
            base_model=start.base_model,
            served_checkpoint_id=start.model.id if start.model else "",
            start_state_id=start.state.id if start.state else "",
            started_from=began.model_dump(mode="json") if began else None,
            config=config.model_dump(mode="json"),
            priority=body.priority,
            devices=config.devices or 0,
            place=config.place,
            budget=body.budget.model_dump(exclude_none=True),
        )
        event_record(
            session_id=session.id,
            kind=EventKind.STATE,
            data={"from": None, "to": SessionState.QUEUED, "phase": "", "reason": "created"},
        )
        if began:
            data = began.model_dump(mode="json", exclude_none=True)
            event_note(session.id, "started_from", **data)
        reconcilers_wake()
    return session


def _hold(checkpoint_id: str) -> None:
    """Until the transaction ends who deletes the checkpoint waits, and finds the session then.
    Raises NotFound.
    """
    committed = Checkpoint.objects.select_for_update().filter(
        id=checkpoint_id, state=CheckpointState.COMMITTED
    )
    if committed.first() is None:
        raise NotFound(f"There is no checkpoint {checkpoint_id} any more.")


def session_update(*, project: Project, session_id: str, body: SessionUpdate) -> Session:
    """Write what people say of a session, in whatever state it is. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    given = body.model_dump(exclude_none=True)
    if body.tags is not None:
        given["tags"] = tags_text(body.tags)
    if given:  # not save(): what its runtime writes meanwhile stays
        Session.objects.filter(id=session.id).update(**given, updated_at=timezone.now())
        session.refresh_from_db()
    return session


def evaluation_record(*, project: Project, session_id: str, body: Evaluation) -> EventRecord:
    """Keep what an evaluation measured in the session's record. Raises NotFound, and Conflict for
    an ended session.
    """
    session = session_get(project=project, session_id=session_id)
    if SessionState(session.state).is_terminal:
        raise Conflict(
            f"The session is {session.state}: no policy of it can be evaluated.",
            hint="Evaluate its checkpoint, or start a session.",
            details={"state": session.state},
        )
    return event_record(
        session_id=session.id, kind=EventKind.EVALUATION, data=body.model_dump(mode="json")
    )


def session_stop(*, project: Project, session_id: str) -> Session:
    """Ask for the end of a session; asking again changes nothing. Raises NotFound.

    Without a runtime it ends now, ``cancelled`` where it never had one. A running one is asked to
    finish, and ends when its process has. Raises Conflict where its state changes as often as it is
    asked.
    """
    session = session_get(project=project, session_id=session_id)
    state = SessionState(session.state)
    tries, refused = 0, None
    while not state.is_terminal and state != SessionState.STOPPING:
        if (tries := tries + 1) > STOP_TRIES:
            raise Conflict(
                f"The session could not be stopped: {STOP_TRIES} times its state was another one, "
                "or would not change.",
                hint="Ask again in a moment. If it stays so, its project's owner or the operator "
                "should see this.",
                details={"state": state},
            ) from refused
        try:
            if state in (SessionState.QUEUED, SessionState.SUSPENDED):
                session_move(
                    session_id=session_id,
                    source=state,
                    target=end_without_runtime(session_id, state),
                    actor=Actor.USER,
                    reason="stopped by the user",
                    desired=Desired.STOP,
                )
            elif _desire(session, Desired.STOP):
                break
        except Conflict as conflict:
            refused = conflict  # its state changed after it was read: read it again
        session.refresh_from_db()
        state = SessionState(session.state)
    session.refresh_from_db()
    return session


def end_without_runtime(session_id: str, state: SessionState) -> SessionState:
    """How a queued or suspended session ends: stopped where it had a runtime before, and waits for
    another one.
    """
    had_one = (
        state == SessionState.SUSPENDED
        or RuntimeSpan.objects.filter(session_id=session_id).exists()
    )
    return SessionState.STOPPED if had_one else SessionState.CANCELLED


def session_suspend(*, project: Project, session_id: str) -> Session:
    """Free the runtime of a ready session: it saves its state and ends; a request or ``resume``
    brings it back.

    Asking again changes nothing. Raises NotFound, Conflict when it is not ready or is to stop.
    """
    session = session_get(project=project, session_id=session_id)
    if session.state == SessionState.SUSPENDED:
        return session
    if (
        session.state != SessionState.READY
        or session.desired == Desired.STOP
        or not _desire(session, Desired.SUSPEND)
    ):
        raise Conflict(
            f"The session is {session.state}: only a ready one can be suspended.",
            hint="Wait until it is ready, or stop it.",
            details={"state": session.state},
        )
    session.refresh_from_db()
    return session


def session_resume(
    *, project: Project, session_id: str, trainer_ranks: int | None = None
) -> Session:
    """Bring a suspended session back; one that runs or waits stays as it is.

    Raises NotFound, Conflict if it ended, or for another number of ranks if it is not suspended;
    what ``config_decide`` raises for that number, and what ``session_wake`` raises.
    """
    session = session_get(project=project, session_id=session_id)
    if session.state in ENDED or session.state == SessionState.STOPPING:
        raise Conflict(
            f"The session is {session.state}: it cannot go on.",
            hint="Start a new session from one of its committed checkpoints: give its id as "
            "base_model.",
            details={"state": session.state},
        )
    with transaction.atomic():  # a session whose ranks were changed is woken too
        if trainer_ranks is not None and trainer_ranks != session.config["trainer_ranks"]:
            _ranks_change(session, trainer_ranks)
        return session_wake(session=session)


def _ranks_change(session: Session, ranks: int) -> None:
    """Let ``ranks`` processes load the state that the suspension saved
    (gpu_runtime/training/states/rank_state.py).
    """
    if session.kind != SessionKind.EPISODES:
        has = "no trainer" if session.kind == SessionKind.SERVING else "the ranks of its devices"
        raise Conflict(
            f"A session of kind {session.kind} has {has}.", hint="Leave trainer_ranks out."
        )
    before = SessionConfig.model_validate(session.config)
    ranks_fit_nodes(config=before, ranks=ranks)
    changes = {"trainer_ranks": ranks, "devices": devices_kept(config=before, trainer_ranks=ranks)}
    config = SessionConfig.model_validate(session.config | changes)
    decided, _, _ = config_decide(body=SessionCreate(base_model=session.base_model, config=config))
    with transaction.atomic():
        devices = decided.devices or 0
        device_quota_check(project=session.project, devices=devices)
        changed = Session.objects.filter(id=session.id, state=SessionState.SUSPENDED).update(
            config=decided.model_dump(mode="json"), devices=devices
        )
        if not changed:
            raise Conflict(
                f"The session is {session.state}: only a suspended one can go on with other "
                "trainer_ranks.",
                hint="Suspend it first, and wait until it is suspended.",
                details={"state": session.state},
            )
        moved = {"from": before.trainer_ranks, "to": ranks}
        moved |= {"devices_from": before.devices or 0, "devices_to": devices}
        event_note(session.id, "trainer_ranks", **moved)
    session.refresh_from_db()


def session_wake(*, session: Session) -> Session:
    """Bring back a session that was suspended for being idle, or was about to be. Others are left
    as they are.

    Raises UnknownBaseModel, InvalidRequest where its base model is not on this server, as after a
    restore, or the checkpoint that it began from was taken back: its runtimes would be refused one
    after the other until it fails.
    """
    if session.state != SessionState.SUSPENDED and session.desired != Desired.SUSPEND:
        return session
    try:
        if session.state == SessionState.SUSPENDED:
            base_model_resolve(session.base_model)
            start_check(session)
            session_move(
                session_id=session.id,
                source=SessionState.SUSPENDED,
                target=SessionState.QUEUED,
                actor=Actor.USER,
                reason="woken by a request",
                desired=Desired.RUN,
                state_since=session.created_at,  # it gave its slot up and queues by its age
            )
            reconcilers_wake()
        elif session.desired == Desired.SUSPEND:
            Session.objects.filter(
                id=session.id, state=session.state, desired=Desired.SUSPEND
            ).update(desired=Desired.RUN, last_activity_at=timezone.now())
    except Conflict:
        # another request woke or stopped it first: its state now is what counts
        pass
    session.refresh_from_db()
    return session


def route_get(*, session_id: str) -> Route:
    """The way from a session's id to its gateway, for the relay, which has a verified episode key
    and no user; a suspended session wakes for being asked. Raises NotFound.
    """
    session = Session.objects.filter(id=session_id).first()
    if session is None:
        raise NotFound("There is no such session.")
    return route_of(
        session_wake(session=session) if session.state == SessionState.SUSPENDED else session
    )


def session_delete(*, project: Project, session_id: str) -> None:
    """Remove the session, its record and its checkpoints. Raises NotFound, Conflict while it or one
    of them is used.
    """
    session = session_get(project=project, session_id=session_id)
    if not SessionState(session.state).is_terminal or session.launch_handle:
        raise Conflict(
            f"The session is {session.state}: only one that has ended can be deleted.",
            hint="Stop it, and delete it once it has stopped.",
            details={"state": session.state},
        )
    with transaction.atomic():
        held_check(
            checkpoint_ids=[checkpoint.id for checkpoint in session.checkpoints.select_for_update()]
        )
        Removal.objects.create(prefix=f"sessions/{session.id}/")
        events_delete(session_id=session.id)
        session.delete()
    shutil.rmtree(settings.DATA / "runtimes" / session_id, ignore_errors=True)


def _desire(session: Session, desired: Desired) -> bool:
    """Say what is wanted of a running session; False when its state changed meanwhile."""
    with transaction.atomic():
        row = Session.objects.filter(id=session.id, state=session.state)
        if row.filter(desired=desired).exists():
            return True
        if row.update(desired=desired, updated_at=timezone.now()) != 1:
            return False
        event_note(session.id, f"{desired}_requested", state=session.state)
    return True
