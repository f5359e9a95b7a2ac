"""Writes about users and their projects."""

from django.db import IntegrityError, transaction

from console.audit.services import audit_record
from console.errors import Conflict
from console.users.models import Membership, Project, User, new_id
from tinkerscript.wire.account import Role


def user_create(*, email: str, password: str | None = None) -> User:
    """A user with a project of their own. Without a password nobody can sign in as them until one is set.

    Raises Conflict when the address is taken.
    """
    address = User.objects.normalize_email(email).lower()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=new_id("usr"), email=address, password=password)
            project_create_default(user=user)
    except IntegrityError:
        raise Conflict(f"{address} already has an account.", hint="Sign in instead.") from None
    return user


def project_create_default(*, user: User) -> Project:
    """The project that every user has; the user owns it."""
    return project_create(user=user, name=user.email.partition("@")[0])


def project_create(*, user: User, name: str) -> Project:
    """A project with ``user`` as its owner; its audit log begins with this."""
    with transaction.atomic():
        project = Project.objects.create(name=name[:120])
        Membership.objects.create(project=project, user=user, role=Role.OWNER)
        audit_record(
            project_id=project.id,
            actor=user.email,
            action="project_create",
            target={"project_id": project.id},
            details={"name": project.name},
        )
    return project


def project_rename(*, project: Project, name: str) -> Project:
    """Give a project another name; its id stays."""
    Project.objects.filter(id=project.id).update(name=name)
    project.refresh_from_db()
    return project
