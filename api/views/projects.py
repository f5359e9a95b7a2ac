"""Projects, their members and webhooks, what they used, and who did what."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from api.presenters import (
    audit_view,
    member_view,
    project_view,
    webhook_view,
)
from api.rest.authentication import Caller
from api.views.queries import AuditQuery, PageQuery, UsageDaysQuery
from console.audit.services import audit_list as entries_of
from console.errors import Forbidden, NotFound
from console.sessions.budgets import session_spending
from console.sessions.limits.quotas import quotas_get
from console.sessions.limits.usage import recent_usage
from console.sessions.limits.usage import usage_list as used
from console.sessions.limits.usage_days import usage_by_key, usage_by_member
from console.sessions.limits.usage_days import usage_days as days_of
from console.sessions.selectors import session_get
from console.users import members, services
from console.users.selectors import project_list as projects_of
from console.users.selectors import role_get
from console.webhooks import services as webhooks
from tinkerscript.wire.account import ProjectView, Scope
from tinkerscript.wire.projects import (
    AuditPage,
    MemberInvite,
    MemberList,
    MemberUpdate,
    MemberView,
    ProjectCreate,
    ProjectList,
    ProjectUpdate,
    SessionSpending,
    SessionUsage,
    UsageBy,
    UsageDays,
    UsageList,
)
from tinkerscript.wire.webhooks import (
    DeliveryList,
    DeliveryView,
    WebhookCreate,
    WebhookCreated,
    WebhookList,
)

DEFAULT_DAYS = 30


def project_list(caller: Caller) -> ProjectList:
    """The projects that the caller is in; a key knows only its own."""
    memberships = projects_of(user=caller.user)
    if caller.key:
        memberships = memberships.filter(project=caller.project)
    return ProjectList(
        items=[project_view(membership.project, membership.role) for membership in memberships]
    )


def project_create(caller: Caller, body: ProjectCreate) -> ProjectView:
    """Make a project; its maker owns it."""
    project = services.project_create(user=caller.user, name=body.name)
    return project_view(project, role_get(user=caller.user, project=project))


def project_rename(caller: Caller, project_id: str, body: ProjectUpdate) -> ProjectView:
    """Give the project another name."""
    # a key's project is its own; a person's is the one of the path
    if project_id != caller.project.id:
        raise NotFound("There is no such project, or you are not in it.")
    project = services.project_rename(project=caller.project, name=body.name)
    return project_view(project, role_get(user=caller.user, project=project))


def member_list(caller: Caller) -> MemberList:
    """Who works in the project, and who is invited to."""
    return MemberList(
        items=[member_view(member) for member in members.member_list(project=caller.project)]
    )


def member_invite(caller: Caller, body: MemberInvite) -> MemberView:
    """Invite an address to the project; they become a member by accepting."""
    project, by = caller.project, caller.user
    return member_view(
        members.member_invite(project=project, email=body.email, role=body.role, by=by)
    )


def member_update(caller: Caller, member_id: str, body: MemberUpdate) -> MemberView:
    """Change a member's role; the last owner stays one."""
    project = caller.project
    return member_view(
        members.member_role_set(project=project, member_id=member_id, role=body.role)
    )


def member_remove(caller: Caller, member_id: str) -> None:
    """Remove a member, withdraw an invitation, or leave; the last owner cannot."""
    members.member_remove(project=caller.project, user=caller.user, member_id=member_id)


def invitation_accept(caller: Caller, member_id: str) -> ProjectView:
    """Become a member of the project that one is invited to."""
    member = members.invitation_accept(user=caller.user, member_id=member_id)
    return project_view(member.project, member.role)


def invitation_decline(caller: Caller, member_id: str) -> None:
    """Do away with an invitation."""
    members.invitation_decline(user=caller.user, member_id=member_id)


def usage_list(caller: Caller, query: PageQuery) -> UsageList:
    """What each session of the project used, newest first, all of them together, and what the
    project has now.
    """
    project = caller.project
    page, total, more = used(project=project, cursor=query.cursor, limit=query.limit)
    tells_payers = query.cursor is None and _may_read_payers(caller)
    return UsageList(
        items=[
            SessionUsage(
                **usage.model_dump(),
                session_id=session.id,
                name=session.name or session.id,
                base_model=session.base_model,
                created_at=session.created_at,
            )
            for session, usage in page
        ],
        total=total,
        last_7_days=recent_usage(project=project, within=timedelta(days=7)),
        by_key=usage_by_key(project=project) if tells_payers else None,
        by_member=usage_by_member(project=project) if tells_payers else None,
        prices=settings.DEVICE_PRICES,
        quotas=quotas_get(project=project),
        next_cursor=more,
    )


def usage_days(caller: Caller, query: UsageDaysQuery) -> UsageDays:
    """What the project used on each day, by model, or by member or key for who may read these."""
    if query.by is not UsageBy.MODEL and not _may_read_payers(caller):
        raise Forbidden(
            f"Usage by {query.by} needs the scope {Scope.ADMIN}.",
            hint="Use a key that has it, sign in, or ask for by=model.",
        )
    last = query.last or timezone.now().date()
    first = query.first or last - timedelta(days=DEFAULT_DAYS - 1)
    return days_of(project=caller.project, first=first, last=last, by=query.by)


def session_usage(caller: Caller, session_id: str) -> SessionSpending:
    """What one session used and costs, and where its budget is heading at its pace so far."""
    session, key = (
        session_get(project=caller.project, session_id=session_id),
        caller.key,
    )
    is_own = key is not None and session.key_id == key.id
    return session_spending(session=session, with_key=is_own or _may_read_payers(caller))


def _may_read_payers(caller: Caller) -> bool:
    """Whether the caller may read members and keys, as their routes decide: a key needs the admin
    scope.
    """
    return caller.key is None or Scope.ADMIN in caller.scopes


def audit_list(caller: Caller, query: AuditQuery) -> AuditPage:
    """Who did what in the project, newest first."""
    records, next_cursor = entries_of(project_id=caller.project.id, **query.model_dump())
    return AuditPage(items=[audit_view(record) for record in records], next_cursor=next_cursor)


def webhook_list(caller: Caller) -> WebhookList:
    """The project's webhooks."""
    return WebhookList(
        items=[webhook_view(webhook) for webhook in webhooks.webhook_list(project=caller.project)]
    )


def webhook_create(caller: Caller, body: WebhookCreate) -> WebhookCreated:
    """Subscribe an address; the secret that signs is in this response and nowhere else."""
    webhook = webhooks.webhook_create(project=caller.project, url=body.url, topics=body.topics)
    secret = webhooks.webhook_secrets(webhook)[0]
    return WebhookCreated(**webhook_view(webhook).model_dump(), secret=secret)


def webhook_delete(caller: Caller, webhook_id: str) -> None:
    """Unsubscribe an address."""
    webhooks.webhook_delete(project=caller.project, webhook_id=webhook_id)


def delivery_list(caller: Caller, webhook_id: str) -> DeliveryList:
    """What was sent, or is on its way, to a webhook."""
    deliveries = webhooks.delivery_list(project=caller.project, webhook_id=webhook_id)
    items = [DeliveryView.model_validate(each, from_attributes=True) for each in deliveries]
    return DeliveryList(items=items)
