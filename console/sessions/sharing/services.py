"""Make, list and revoke links to a run, recognise one, and end those of a person who may not make
them any more.

A link is as good as its maker: it reads while the person, or the API key that made it, may change
sessions of the project. One that was made with a key ends with that key.
"""

import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models.signals import post_save, pre_delete
from django.dispatch import receiver
from django.utils import timezone

from console.errors import NotFound, QuotaExceeded, Unauthenticated
from console.sessions.models import Session
from console.sessions.selectors import session_get
from console.sessions.sharing.models import ShareLink
from console.users.keys import caller_is_good, person_caller_id, sha256_of
from console.users.models import ApiKey, Membership, Project, User
from tinkerscript.wire.account import Role

PREFIX = "tml-sl_"
MAX_LINKS = 20  # of one session, those that are not good any more not counted


def share_create(
    *,
    project: Project,
    session_id: str,
    person: User,
    expires_in_days: int,
    key: ApiKey | None = None,
) -> tuple[ShareLink, str]:
    """A link and its token, which is not stored and cannot be shown again. ``key``: with which it
    is made, if any.

    Raises NotFound, QuotaExceeded.
    """
    session = session_get(project=project, session_id=session_id)
    good = [link.id for link in _good(session)]
    ShareLink.objects.filter(session=session).exclude(id__in=good).delete()
    if len(good) >= MAX_LINKS:
        raise QuotaExceeded(
            f"A session has {MAX_LINKS} links at most.", hint="Revoke one that is no longer used."
        )
    token = PREFIX + secrets.token_urlsafe(32)
    expires_at = timezone.now() + timedelta(days=expires_in_days)
    link = ShareLink.objects.create(
        session=session, person=person, key=key, sha256=sha256_of(token), expires_at=expires_at
    )
    return link, token


def share_list(*, project: Project, session_id: str) -> list[ShareLink]:
    """The links that read a session now, newest first. Raises NotFound."""
    return _good(session_get(project=project, session_id=session_id))


def share_revoke(*, project: Project, session_id: str, share_id: str) -> None:
    """End a link now. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    if not ShareLink.objects.filter(session=session, id=share_id).delete()[0]:
        raise NotFound("There is no such link to this session.")


def share_authenticate(*, token: str) -> ShareLink:
    """The link whose token this is. Raises Unauthenticated, in the same words for every reason."""
    links = ShareLink.objects.select_related("session__project", "person")
    link = links.filter(sha256=sha256_of(token), expires_at__gt=timezone.now()).first()
    if link is None or not _maker_may(link):
        raise Unauthenticated(
            "This link is not valid: it is unknown, revoked or expired.",
            hint=f"Ask the one who sent it for another, or sign in at {settings.PUBLIC_URL}.",
        )
    return link


@receiver(pre_delete, sender=Membership)
def links_of_removed_end(instance: Membership, **_: Any) -> None:
    """Delete the links of a person who is not in the project any more: an invitation later revives
    none.
    """
    _links_delete(instance)


@receiver(post_save, sender=Membership)
def links_of_demoted_end(instance: Membership, **_: Any) -> None:
    """Delete the links of a person who may only read from now on."""
    if instance.role == Role.VIEWER:
        _links_delete(instance)


def _links_delete(member: Membership) -> None:
    if member.user_id is not None:
        ShareLink.objects.filter(
            person_id=member.user_id, session__project_id=member.project_id
        ).delete()


def _good(session: Session) -> list[ShareLink]:
    links = ShareLink.objects.filter(session=session, expires_at__gt=timezone.now())
    links = links.select_related("session__project", "person").order_by("-created_at", "id")
    return [link for link in links if _maker_may(link)]


def _maker_may(link: ShareLink) -> bool:
    if link.person is None:
        return False
    if link.key_id:
        return caller_is_good(caller_id=link.key_id)
    membership = link.session.project.memberships.filter(user=link.person).first()
    return membership is not None and caller_is_good(
        caller_id=person_caller_id(membership=membership)
    )
