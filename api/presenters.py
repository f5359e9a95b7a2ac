"""Rows as the wire shows them."""

import json
from collections.abc import Iterable, Mapping, Sequence

from console.audit.models import AuditRecord
from console.catalogue.base_models import base_model_sizes
from console.sessions.alerts.models import MetricRule
from console.sessions.limits.queue import queue_look
from console.sessions.models import Alert, Checkpoint, Session
from console.sessions.selectors import tags_of
from console.users.models import ApiKey, Membership, Project, User
from console.webhooks.models import Webhook
from tinkerscript.wire.account import (
    AccountView,
    InvitationView,
    KeyView,
    ProjectView,
    Role,
    SignInView,
)
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState, CheckpointView
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.projects import (
    AuditEntry,
    MemberView,
)
from tinkerscript.wire.reading.alerts import AlertRule, AlertView, MetricRuleView
from tinkerscript.wire.sessions import (
    Accounting,
    Failure,
    SessionKind,
    SessionList,
    SessionState,
    SessionView,
)
from tinkerscript.wire.training.defaults import options_decided
from tinkerscript.wire.webhooks import WebhookView


def account_view(
    user: User, memberships: Iterable[Membership], invitations: Iterable[Membership]
) -> AccountView:
    """A user, where they may work, and where they are asked to."""
    return AccountView(
        email=user.email,
        projects=[project_view(membership.project, membership.role) for membership in memberships],
        invitations=[
            InvitationView(
                id=invitation.member_id,
                project_name=invitation.project.name,
                role=Role(invitation.role),
                created_at=invitation.created_at,
            )
            for invitation in invitations
        ],
    )


def project_view(project: Project, role: str) -> ProjectView:
    """A project as a member with ``role`` sees it."""
    return ProjectView(id=project.id, name=project.name, role=Role(role))


def member_view(member: Membership) -> MemberView:
    """A member, or a person who is invited."""
    return MemberView(
        id=member.member_id,
        email=member.user.email if member.user else member.email,
        role=Role(member.role),
        is_invited=member.user is None,
        created_at=member.created_at,
    )


def key_view(key: ApiKey, spent_s: float = 0.0) -> KeyView:
    """A key without its secret. ``spent_s`` is that of the sessions it started."""
    return KeyView(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=key.scopes,
        allowed_models=key.allowed_models,
        spend_cap_s=key.spend_cap_s,
        spent_s=spent_s,
        created_by=key.user.email,
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
    )


def audit_view(record: AuditRecord) -> AuditEntry:
    """An entry of the audit log: read from the very text that its hash covers."""
    content = json.loads(record.content)
    del content["project_id"]
    return AuditEntry(
        **content,
        content=record.content,
        previous_sha256=record.previous_sha256,
        sha256=record.sha256,
    )


def sign_in_view(record: AuditRecord) -> SignInView:
    """An entry about a sign-in, as the person whom it concerns sees it."""
    content = json.loads(record.content)
    origin = {name: content["details"].get(name, "") for name in ("address", "agent")}
    return SignInView(
        at=content["at"], action=content["action"], request_id=content["request_id"], **origin
    )


def webhook_view(webhook: Webhook) -> WebhookView:
    """A webhook without its secret."""
    return WebhookView.model_validate(webhook, from_attributes=True)


def session_list_view(
    sessions: Sequence[Session],
    next_cursor: str | None,
    measures: Mapping[str, dict[str, float]] | None = None,
) -> SessionList:
    """One page of sessions. The queue, which may be long, is looked at once for all of them.

    ``measures``: those of each session's last step, by its id, where they are asked for.
    """
    found = queue_look(sessions)
    sizes = base_model_sizes({session.base_model for session in sessions})
    items = [_session_view(it, found, sizes[it.base_model]) for it in sessions]
    if measures is not None:
        items = [item.model_copy(update={"measures": measures.get(item.id, {})}) for item in items]
    return SessionList(items=items, next_cursor=next_cursor)


def session_view(session: Session) -> SessionView:
    """A session as its project may see it: nothing of lease, launcher or address."""
    return session_list_view([session], None).items[0]


def _session_view(
    session: Session, queue: Mapping[str, int], parameters: int | None
) -> SessionView:
    config = SessionConfig.model_validate(session.config)
    return SessionView(
        id=session.id,
        project_id=session.project_id,
        kind=SessionKind(session.kind),
        name=session.name or session.id,
        base_model=session.base_model,
        started_from=session.started_from,
        served_checkpoint_id=session.served_checkpoint_id or None
        if session.kind == SessionKind.SERVING
        else None,
        state=SessionState(session.state),
        phase=session.phase,
        queue_position=queue.get(session.id),
        failure=Failure.model_validate(session.failure) if session.failure else None,
        config=config,
        decided=options_decided(config, parameters),
        priority=session.priority,
        budget=session.budget,
        policy_version=session.policy_version,
        reward_mean=session.reward_mean,
        accounting=Accounting.model_validate(session.accounting),
        restarts=session.restarts_ever,
        tags=tags_of(session),
        notes=session.notes,
        pinned=session.pinned,
        episodes_removed_at=session.episodes_removed_at,
        created_at=session.created_at,
        updated_at=session.updated_at,
    )


def alert_view(alert: Alert, *, is_read: bool) -> AlertView:
    """One alert, and whether the reader has seen it before."""
    return AlertView(
        id=alert.id,
        session_id=alert.session_id,
        session_name=alert.session.name or alert.session_id,
        rule=AlertRule(alert.rule),
        text=alert.text,
        hint=alert.hint,
        step=alert.step,
        at=alert.at,
        over_at=alert.over_at,
        is_read=is_read,
    )


def metric_rule_view(rule: MetricRule) -> MetricRuleView:
    """One of the project's own rules."""
    return MetricRuleView.model_validate(rule, from_attributes=True)


def checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    """A checkpoint in any state."""
    return CheckpointView(
        id=checkpoint.id,
        session_id=checkpoint.session_id,
        kind=CheckpointKind(checkpoint.kind),
        state=CheckpointState(checkpoint.state),
        step=checkpoint.step,
        size_bytes=checkpoint.size_bytes if checkpoint.files else None,
        pinned=checkpoint.pinned,
        failure=checkpoint.failure,
        tinker_path=checkpoint.tinker.path if hasattr(checkpoint, "tinker") else None,
        public=hasattr(checkpoint, "tinker") and checkpoint.tinker.public,
        created_at=checkpoint.created_at,
        committed_at=checkpoint.committed_at,
    )
