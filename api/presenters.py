"""Rows as the wire shows them."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence

from console.audit.models import AuditRecord
from console.catalogue.base_models import base_model_sizes
from console.sessions.alerts.models import MetricRule
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.selectors import Group, Step
from console.sessions.limits.queue import queue_look
from console.sessions.models import Alert, Checkpoint, EpisodeRecord, Session
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
from tinkerscript.wire.episodes import EpisodeAnnotation as EpisodeAnnotationView
from tinkerscript.wire.episodes import (
    EpisodeList,
    EpisodeState,
    EpisodeView,
    RefusedCalls,
    SampleFate,
    Thumb,
)
from tinkerscript.wire.events import Event, EventKind
from tinkerscript.wire.projects import (
    AuditEntry,
    MemberView,
)
from tinkerscript.wire.reading.alerts import AlertRule, AlertView, MetricRuleView
from tinkerscript.wire.reading.trajectories import EpisodeFate, GroupList, GroupView, StepView
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

SAME_NAME = (
    "episode_id", "task", "group_key", "eval", "reward", "is_success", "metrics", "rewards_by_agent", "calls",
    "sampled_tokens", "timelines", "policy_version_first", "policy_version_last", "trained_step", "begun_at",
    "deadline_at", "ended_at", "drift", "advantage", "logprob_mean", "ratio_counts", "prompt",
    "answer",
)  # fmt: skip
NOT_COMPLETED = {EpisodeFate.OPEN, EpisodeFate.ABANDONED, EpisodeFate.EXPIRED}


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


def annotation_view(row: EpisodeAnnotation) -> EpisodeAnnotationView:
    """What one person says of an episode."""
    return EpisodeAnnotationView(
        episode_id=row.episode_id,
        by=row.person.email if row.person else "",
        thumb=Thumb(row.thumb) if row.thumb else None,
        comment=row.comment,
        at=row.at,
    )


def episode_view(
    record: EpisodeRecord, annotations: Iterable[EpisodeAnnotation] = ()
) -> EpisodeView:
    """One episode as it was last reported."""
    fate = EpisodeFate(record.fate)
    refused = RefusedCalls.model_validate(record.refused) if record.refused else None
    return EpisodeView(
        **{name: getattr(record, name) for name in SAME_NAME},
        state=EpisodeState(fate) if fate in NOT_COMPLETED else EpisodeState.COMPLETED,
        fate=_sample_fate(fate),
        reason=record.reason or None,
        agents=[label for label in record.agents.split("|") if label],
        has_tokens=record.pack_id is not None,
        refused=refused,
        warning=refused.sentence if refused else None,
        annotations=[annotation_view(row) for row in annotations],
    )


def episode_list_view(
    records: list[EpisodeRecord],
    annotations: Mapping[str, list[EpisodeAnnotation]],
    next_cursor: str | None,
) -> EpisodeList:
    """One page of episodes, with what is said of each."""
    items = [episode_view(record, annotations.get(record.episode_id, ())) for record in records]
    return EpisodeList(items=items, next_cursor=next_cursor)


def group_view(group: Group) -> GroupView:
    """A group with its episodes."""
    rewards = [episode.reward for episode in group.episodes if episode.reward is not None]
    # Rewards of single calls can differ where those of the episodes are equal: then there is an
    # advantage.
    differs = len(set(rewards)) > 1 or any(episode.advantages for episode in group.episodes)
    return GroupView(
        group_key=group.key,
        task=group.episodes[0].task,
        step=group.step,
        count=len(group.episodes),
        reward_mean=statistics.fmean(rewards) if rewards else None,
        reward_std=statistics.pstdev(rewards) if rewards else None,
        has_signal=differs,
        episodes=[episode_view(episode) for episode in group.episodes],
    )


def group_list_view(groups: list[Group], next_cursor: int | None) -> GroupList:
    """One page of groups."""
    return GroupList(
        items=[group_view(group) for group in groups],
        next_cursor=str(next_cursor) if next_cursor is not None else None,
    )


def step_view(step: Step) -> StepView:
    """A step with its groups."""
    return StepView(
        step=step.number,
        metrics=step.metric.data if step.metric else None,
        at=step.metric.at.isoformat() if step.metric else None,
        refused=[
            Event(cursor=each.id, kind=EventKind(each.kind), at=each.at, data=each.data)
            for each in step.refused
        ],
        groups=[group_view(group) for group in step.groups],
        previous=step.previous,
        next=step.next,
    )


def _sample_fate(fate: EpisodeFate) -> SampleFate | None:
    if fate in NOT_COMPLETED:
        return None
    return SampleFate.ACCEPTED if fate is EpisodeFate.WAITING else SampleFate(fate)
