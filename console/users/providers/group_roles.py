"""Roles that groups of the identity provider give, applied when a person signs in by it.

In a project that the settings name for some group, the provider decides alone: a person has there
the highest role that their groups give, and none without such a group. The last owner of a project
stays one.
"""

import logging
from collections.abc import Collection

from django.db import transaction

from console.audit.services import audit_record
from console.config.oidc import GroupRole
from console.errors import Conflict
from console.users.members import member_remove, member_role_set
from console.users.models import Membership, Project, User
from tinkerscript.wire.account import Role

log = logging.getLogger(__name__)
RANKS = [Role.VIEWER, Role.MEMBER, Role.OWNER]


def group_roles_apply(*, user: User, groups: Collection[str], rules: Collection[GroupRole]) -> None:
    """Give, change and take this person's roles in the projects of the rules."""
    wanted: dict[str, Role | None] = {rule.project_id: None for rule in rules}
    for rule in rules:
        if rule.group in groups:
            wanted[rule.project_id] = max(
                wanted[rule.project_id] or rule.role, rule.role, key=RANKS.index
            )
    for project_id, role in sorted(wanted.items()):
        try:
            with transaction.atomic():
                _role_apply(user, project_id, role)
        except Conflict as refusal:
            log.warning("%s keeps the role in %s: %s", user.email, project_id, refusal.message)


def _role_apply(user: User, project_id: str, role: Role | None) -> None:
    project = Project.objects.select_for_update(no_key=True).filter(id=project_id).first()
    if project is None:
        log.warning(
            "A rule for groups of the identity provider names %s, which is no project", project_id
        )
        return
    member = Membership.objects.filter(project=project, user=user).first()
    before = Role(member.role) if member else None
    if before == role:
        return
    if role is None:
        assert member is not None, "who has no role has none to lose"
        member_remove(project=project, user=user, member_id=member.member_id)
    elif member is None:
        member = Membership.objects.create(project=project, user=user, role=role)
    else:
        member_role_set(project=project, member_id=member.member_id, role=role)
    audit_record(
        project_id=project.id,
        actor=user.email,
        action="member_role_by_group",
        target={"member_id": member.member_id},
        details={"before": before, "role": role},
    )
