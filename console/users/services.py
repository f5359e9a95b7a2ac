"""Writes about users and their projects."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import IntegrityError, transaction

from console.audit.services import audit_record
from console.errors import Conflict, QuotaExceeded
from console.users.models import NAME_MAX_LENGTH, Membership, Project, User, new_id
from tinkerscript.wire.account import Role


def user_create(*, email: str, password: str | None = None, is_confirmed: bool = False) -> User:
    """A user with a project of their own. Without a password there is no signing in until one is
    set.

    ``is_confirmed``: the operator makes the account and vouches for the address, so that no later
    proof of it ends what was made before (console.users.sign_up).

    Raises Conflict when the address is taken.
    """
    address = User.objects.normalize_email(email).lower()
    try:
        with transaction.atomic():
            user = User.objects.create_user(
                username=new_id("usr"), email=address, password=password
            )
            if is_confirmed:
                EmailAddress.objects.create(user=user, email=address, verified=True, primary=True)
            project_create_default(user=user)
    except IntegrityError:
        raise Conflict(f"{address} already has an account.", hint="Sign in instead.") from None
    return user


def project_create_default(*, user: User) -> Project:
    """The project that every user has; the user owns it."""
    return project_create(user=user, name=user.email.partition("@")[0][:NAME_MAX_LENGTH])


def project_create(*, user: User, name: str) -> Project:
    """A project with ``user`` as its owner; its audit log begins with this. Raises
    QuotaExceeded.
    """
    limits = settings.LIMITS
    with transaction.atomic():
        _project_limit_check(user)
        project = Project.objects.create(
            name=name[:120],
            device_quota=limits.devices,
            session_quota=limits.sessions,
            storage_quota_bytes=None if limits.storage_gib is None else limits.storage_gib << 30,
        )
        Membership.objects.create(project=project, user=user, role=Role.OWNER)
        audit_record(
            project_id=project.id,
            actor=user.email,
            action="project_create",
            target={"project_id": project.id},
            details={"name": project.name},
        )
    return project


def _project_limit_check(user: User) -> None:
    limit = settings.LIMITS.projects
    if limit is None:
        return
    # two at once must not both take the last one
    User.objects.select_for_update(no_key=True).get(id=user.pk)
    owned = Membership.objects.filter(user=user, role=Role.OWNER).count()
    if owned >= limit:
        raise QuotaExceeded(
            f"One person may own {limit} projects, and you own {owned}.",
            hint="Use one that you have, or ask who runs this server for more.",
            details={"limit": limit, "used": owned},
        )


def project_rename(*, project: Project, name: str) -> Project:
    """Give a project another name; its id stays."""
    Project.objects.filter(id=project.id).update(name=name)
    project.refresh_from_db()
    return project
