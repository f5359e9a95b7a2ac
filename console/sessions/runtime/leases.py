"""What a runtime may write: only the one that holds the session's lease now.

A lease token is "tml-ls-" + session id + "." + 256 random bits in hex; the row keeps its SHA-256.
Issuing a new one replaces the old, which fences the runtime that had it: every write here holds the
row and compares first.
"""

import hmac
import json
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from console.catalogue.base_models import base_model_resolve
from console.errors import InvalidRequest, NotFound, StaleLease
from console.live.local_wakes import reconcilers_wake
from console.live.selectors import steps_new
from console.live.services import event_record, events_record
from console.sessions.alerts.services import events_watch, steps_watch
from console.sessions.episodes.names import journal_files
from console.sessions.limits.usage import span_begin, span_open, span_seen
from console.sessions.models import Checkpoint, Session, Upload
from console.sessions.raised_alerts import alerts_close
from console.sessions.runtime.gateway_keys import episode_signing_keys, relay_key
from console.sessions.runtime.machine_samples import sample_record
from console.sessions.runtime.pace import PACE
from console.sessions.runtime.stored_files import starting_points, stored_file
from console.sessions.states import UNWRITTEN, Actor, Desired
from console.sessions.transitions import NO_LEASE, OF_RUNTIMES, checkpoints_fail, session_move
from console.users.keys import sha256_of
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind, StepMetrics
from tinkerscript.wire.runtime import (
    PHASE_WAITING,
    Assignment,
    CheckpointOrder,
    FailureReport,
    Orders,
    Report,
    RuntimeStage,
    RuntimeState,
    StopReason,
)
from tinkerscript.wire.sessions import SessionKind, SessionState

PREFIX = "tml-ls-"
ADDRESS = re.compile(r"[A-Za-z0-9.\-]+:(?P<port>[1-9]\d{0,4})")
MAX_PORT = 65_535
LEASED = ("id", "project_id", "state", "lease_sha256", "base_model")
# What a heartbeat compares, and its orders say.
BEATEN = ("id", "kind", "state", "state_since", "desired", "lease_sha256", "phase", "progress", "restarts",
          "policy_version", "policy_version_high", "reward_mean", "accounting", "journal_bytes")  # fmt: skip
# A session that serves calls is ready for this long: its next restart is counted anew. One of
# episodes: with each step.
STEADY = timedelta(minutes=5)
# of a heartbeat, to who watches a project
SHOWN = ("phase", "policy_version", "reward_mean", "accounting")


def lease_issue(*, session: Session) -> str:
    """A new lease, which fences off the one before. The checkpoints of that one are given up or
    requested again.
    """
    token = f"{PREFIX}{session.id}.{secrets.token_hex(32)}"
    with transaction.atomic(savepoint=False):
        span_open(session=session, lease_sha256=sha256_of(token), gpus=session.devices)
        Session.objects.filter(id=session.id).update(
            lease_sha256=sha256_of(token),
            lease_expires_at=timezone.now() + timedelta(seconds=settings.LEASE_S),
            address="",
            gateway_port=None,
        )
        checkpoints_fail(
            session_id=session.id, reason="Its runtime ended before it was written.", ordered=False
        )
        Checkpoint.objects.filter(session=session, state=CheckpointState.UPLOADING).update(
            state=CheckpointState.REQUESTED
        )
    session.refresh_from_db(fields=("state", *NO_LEASE))
    return token


def lease_check(*, token: str) -> Session:
    """The session whose runtime holds this lease. Raises StaleLease for any other token.

    Of its columns those of LEASED are read now: what is written under the lease reads the whole
    row, locked.
    """
    session_id = token.removeprefix(PREFIX).partition(".")[0]
    session = next(iter(Session.objects.filter(id=session_id).only(*LEASED)), None)
    if (
        session is None
        or not session.lease_sha256
        or not hmac.compare_digest(session.lease_sha256, sha256_of(token))
        or SessionState(session.state).is_terminal
    ):
        raise _stale()
    return session


def lease_lock(session: Session, columns: Sequence[str] = ()) -> Session:
    """The row as it is now, held until the transaction ends; of its ``columns`` those that are
    named, or all.

    Raises StaleLease if the lease is another's by now.
    """
    held = Session.objects.select_for_update(no_key=True).filter(
        id=session.id, lease_sha256=session.lease_sha256
    )
    held = held.only(*columns) if columns else held
    row = next(iter(held), None)  # ``first`` would have one row put in order
    if row is None or not row.lease_sha256 or SessionState(row.state).is_terminal:
        raise _stale()
    return row


def upload_lock(session: Session, upload: Upload) -> Session:
    """As ``lease_lock``. Raises NotFound too, for a commit that is executed late: what came after
    it took its row.
    """
    row = lease_lock(session)
    # counted as what it becomes
    if not Upload.objects.filter(id=upload.id).update(pending_bytes=0):
        raise NotFound("There is no such upload in this session.", hint="Open a new one.")
    return row


def runtime_register(*, session: Session) -> Assignment:
    """A runtime's first request; it may be repeated. Raises StaleLease, InvalidRequest if the model
    is gone.
    """
    model = base_model_resolve(session.base_model)
    with transaction.atomic():
        row = lease_lock(session)
        if row.state == SessionState.PROVISIONING:
            session_move(
                session_id=row.id,
                source=SessionState.PROVISIONING,
                target=SessionState.LOADING,
                actor=Actor.RUNTIME,
                reason="the runtime registered",
                lease_sha256=row.lease_sha256,
                progress_at=timezone.now(),
                **_renewed(),
            )
            span_begin(lease_sha256=row.lease_sha256, at=timezone.now())
    signing_key, *previous_keys = episode_signing_keys(session_id=row.id)
    config = SessionConfig.model_validate(row.config)
    return Assignment(
        session_id=row.id,
        kind=SessionKind(row.kind),
        base_model=row.base_model,
        base_model_path=model.path,
        config=config,
        public_url=settings.PUBLIC_URL,
        episode_signing_key=signing_key.hex(),
        previous_episode_signing_keys=[key.hex() for key in previous_keys],
        relay_key=relay_key(session_id=row.id, lease_sha256=row.lease_sha256),
        lease_seconds=settings.LEASE_S,
        traces_url=settings.TRACES_URL or None,
        **starting_points(row),
        journal_files=[stored_file(file["key"], file) for file in journal_files(row.journal)],
    )


def runtime_heartbeat(*, session: Session, body: RuntimeState) -> Orders:
    """Renew the lease, store the runtime's status, return its orders. Raises StaleLease,
    InvalidRequest.
    """
    port = _port(body.address)
    with transaction.atomic():
        row = lease_lock(session, BEATEN)
        observed = _observed(row, body) | {"gateway_port": port}
        renewed = _renewed() | observed
        if not any(name in observed and observed[name] != getattr(row, name) for name in SHOWN):
            # nobody is shown another row; and PostgreSQL writes no entry of any index
            del renewed["updated_at"]
        Session.objects.filter(id=row.id).update(**renewed)
        if observed.get("restarts") == 0 and (row.restarts or "policy_version_high" in observed):
            alerts_close(row.alerts.filter(rule__in=OF_RUNTIMES))
        span_seen(lease_sha256=row.lease_sha256, at=timezone.now())
        sample_record(session=row, sample=body.resources)
        if row.state == SessionState.LOADING and body.state is RuntimeStage.READY:
            session_move(
                session_id=row.id,
                source=SessionState.LOADING,
                target=SessionState.READY,
                actor=Actor.RUNTIME,
                phase=body.phase,
                deadline_s=body.deadline_s,
                lease_sha256=row.lease_sha256,
                last_activity_at=timezone.now(),
            )
            reconcilers_wake()  # which finds its address
        elif body.phase != row.phase and not _waits_on(row.phase, body.phase):
            data: dict[str, Any] = {
                "from": row.state,
                "to": row.state,
                "phase": body.phase,
                "reason": "",
            }
            data["deadline_s"] = body.deadline_s
            event_record(session_id=row.id, kind=EventKind.STATE, data=data)
    return _orders(row, restarts=observed.get("restarts", row.restarts))


def runtime_report(*, session: Session, body: Report) -> None:
    """Add to the session's record; entries that are there already are left. Raises StaleLease,
    InvalidRequest.
    """
    for entry in body.entries:
        if entry.kind is EventKind.STATE:
            raise InvalidRequest(f"{entry.key}: a runtime reports its state by heartbeat.")
        try:
            json.dumps(entry.data, allow_nan=False)
            if entry.kind is EventKind.METRIC:
                StepMetrics.model_validate(entry.data)
        except ValueError as error:
            raise InvalidRequest(f"{entry.key}: {error}") from None
    with transaction.atomic():
        row = lease_lock(session)
        steps = steps_new(session_id=session.id, entries=body.entries)
        events_record(session_id=session.id, entries=body.entries)
        if tokens := sum(int(step["tokens_trained"]) for step in steps):
            Session.objects.filter(id=session.id).update(
                tokens_trained=F("tokens_trained") + tokens
            )
        steps_watch(session=row, new=len(steps))
        events_watch(session=row, entries=body.entries)


def runtime_fail(*, session: Session, body: FailureReport) -> None:
    """The runtime gives up: the session fails with its cause. Raises StaleLease."""
    with transaction.atomic():
        row = lease_lock(session)
        session_move(
            session_id=row.id,
            source=SessionState(row.state),
            target=SessionState.FAILED,
            actor=Actor.RUNTIME,
            reason=body.cause,
            lease_sha256=row.lease_sha256,
            failure=body.model_dump(),
        )


def _waits_on(before: str, now: str) -> bool:
    """Whether only the count of the episodes that are waited for changed, which is no entry of the
    record.
    """
    return before.startswith(PHASE_WAITING) and now.startswith(PHASE_WAITING)


def _port(address: str) -> int | None:
    """The port of the gateway. The host is left out: where a runtime is, its launcher says
    (reconcile).
    """
    if not address:
        return None
    matched = ADDRESS.fullmatch(address)
    if matched is None or int(matched["port"]) > MAX_PORT:
        raise InvalidRequest("address must read host:port.")
    return int(matched["port"])


def _renewed() -> dict[str, Any]:
    now = timezone.now()
    return {"lease_expires_at": now + timedelta(seconds=settings.LEASE_S), "updated_at": now}


def _observed(row: Session, body: RuntimeState) -> dict[str, Any]:
    """The columns that a heartbeat sets."""
    fields: dict[str, Any] = {"phase": body.phase, "progress": body.progress}
    if body.progress != row.progress or body.phase != row.phase:
        fields["progress_at"] = timezone.now()
    if body.last_activity_at is not None:
        fields["last_activity_at"] = datetime.fromtimestamp(body.last_activity_at, UTC)
    # one that is loading serves no version yet, and counts no episodes
    if body.state is not RuntimeStage.LOADING:
        fields["accounting"] = body.accounting.model_dump()
        fields["policy_version"] = body.policy_version
        fields["reward_mean"] = body.reward_mean
        if body.policy_version > row.policy_version_high:
            fields |= {"policy_version_high": body.policy_version, "restarts": 0}
    serves_calls = row.kind != SessionKind.EPISODES
    if (
        serves_calls
        and row.state == SessionState.READY
        and timezone.now() - row.state_since > STEADY
    ):
        fields["restarts"] = 0
    return fields


def _orders(row: Session, *, restarts: int) -> Orders:
    stop = Desired.STOP if row.state == SessionState.STOPPING else Desired(row.desired)
    pending = Checkpoint.objects.filter(session=row, ordered=True, state__in=UNWRITTEN)
    return Orders(
        lease_seconds=settings.LEASE_S,
        stop=None if stop is Desired.RUN else StopReason(stop),
        last_try=restarts >= settings.MAX_RESTARTS,
        checkpoints=[
            CheckpointOrder(checkpoint_id=checkpoint_id, kind=CheckpointKind(kind))
            for checkpoint_id, kind in pending.order_by("created_at", "id").values_list(
                "id", "kind"
            )
        ],
        heartbeat_s=PACE.next_s(row.id),
    )


def _stale() -> StaleLease:
    return StaleLease(
        "This lease is not, or no longer, the session's.",
        hint="Another runtime holds the session or it has ended: end this one.",
    )
