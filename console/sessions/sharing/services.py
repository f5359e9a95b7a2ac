"""Make, list and revoke links to a run, and recognise one."""

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from console.errors import NotFound, QuotaExceeded, Unauthenticated
from console.sessions.selectors import session_get
from console.sessions.sharing.models import ShareLink
from console.users.models import Project, User

PREFIX = "tml-sl_"
MAX_LINKS = 20  # of one session, expired ones not counted


def share_create(*, project: Project, session_id: str, person: User, expires_in_days: int) -> tuple[ShareLink, str]:
    """A link and its token, which is not stored and cannot be shown again. Raises NotFound, QuotaExceeded."""
    session = session_get(project=project, session_id=session_id)
    now = timezone.now()
    ShareLink.objects.filter(session=session, expires_at__lte=now).delete()
    if ShareLink.objects.filter(session=session).count() >= MAX_LINKS:
        raise QuotaExceeded(f"A session has {MAX_LINKS} links at most.", hint="Revoke one that is no longer used.")
    token = PREFIX + secrets.token_urlsafe(32)
    expires_at = now + timedelta(days=expires_in_days)
    link = ShareLink.objects.create(session=session, person=person, sha256=_sha256(token), expires_at=expires_at)
    return link, token


def share_list(*, project: Project, session_id: str) -> list[ShareLink]:
    """The links of a session that have not expired, newest first. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    links = ShareLink.objects.filter(session=session, expires_at__gt=timezone.now())
    return list(links.select_related("person").order_by("-created_at", "id"))


def share_revoke(*, project: Project, session_id: str, share_id: str) -> None:
    """End a link now. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    if not ShareLink.objects.filter(session=session, id=share_id).delete()[0]:
        raise NotFound("There is no such link to this session.")


def share_authenticate(*, token: str) -> ShareLink:
    """The link whose token this is. Raises Unauthenticated, in the same words for every reason."""
    links = ShareLink.objects.select_related("session__project")
    link = links.filter(sha256=_sha256(token), expires_at__gt=timezone.now()).first()
    if link is None:
        raise Unauthenticated(
            "This link is not valid: it is unknown, revoked or expired.",
            hint=f"Ask the one who sent it for another, or sign in at {settings.PUBLIC_URL}.",
        )
    return link


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
