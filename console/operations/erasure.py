"""Erasing a person: their account, what they alone own, and everything that names them but the
audit log.
"""

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session as BrowserSession
from django.db import transaction
from django.db.models import Q

from console.errors import Conflict, NotFound
from console.sessions.models import Session
from console.sessions.services import session_delete
from console.sessions.states import ENDED
from console.users.models import Membership, Project, User
from tinkerscript.wire.account import Role


def person_erase(*, email: str) -> list[str]:
    """Erase a person and the projects that no one else owns; the ids of those. The bytes go with
    the next removals.

    Projects that others own too stay, and so do their sessions, without this person's name. The
    audit log stays: it says who did what. Raises NotFound, Conflict while a session of those
    projects has not ended.
    """
    user = User.objects.filter(email=email.lower()).first()
    if user is None:
        raise NotFound(f"There is no account {email}.")
    alone = _projects_alone(user)
    going = Session.objects.filter(project__in=alone).exclude(
        Q(state__in=ENDED) & Q(launch_handle__isnull=True)
    )
    if ids := list(going.values_list("id", flat=True)):
        raise Conflict(
            f"Sessions of this person have not ended: {', '.join(ids[:5])}.",
            hint="Stop them first.",
        )
    erased = [project.id for project in alone]
    with transaction.atomic():
        for project in alone:
            for session_id in list(project.training_sessions.values_list("id", flat=True)):
                session_delete(project=project, session_id=session_id)
            project.delete()
        Membership.objects.filter(user=None, email=user.email).delete()  # invitations
        browsers = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
        BrowserSession.objects.filter(session_key__in=list(browsers)).delete()
        user.delete()
    return erased


def _projects_alone(user: User) -> list[Project]:
    owned = Project.objects.filter(memberships__user=user, memberships__role=Role.OWNER)
    others = Membership.objects.filter(role=Role.OWNER, user__isnull=False).exclude(user=user)
    return list(owned.exclude(id__in=others.values("project_id")))
