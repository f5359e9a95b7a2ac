"""Reads about users, their projects and their API keys."""

from django.db.models import QuerySet

from console.errors import NotFound
from console.users.models import ApiKey, Membership, Project, User
from tinkerscript.wire.account import Role


def project_list(*, user: User) -> QuerySet[Membership]:
    """The memberships of a user with their projects, oldest first: the first is the default
    project.
    """
    return (
        Membership.objects.select_related("project").filter(user=user).order_by("created_at", "id")
    )


def project_get(*, user: User, project_id: str | None = None) -> Project:
    """A project that the user is in; their first one when no id is given. Raises NotFound."""
    memberships = project_list(user=user)
    if project_id is not None:
        memberships = memberships.filter(project_id=project_id)
    membership = memberships.first()
    if membership is None:
        raise NotFound("There is no such project, or you are not in it.")
    return membership.project


def membership_get(*, user: User, project: Project) -> Membership:
    """The user's part in the project. Raises NotFound when they are not in it."""
    membership = Membership.objects.filter(user=user, project=project).first()
    if membership is None:
        raise NotFound("There is no such project, or you are not in it.")
    return membership


def role_get(*, user: User, project: Project) -> Role:
    """What the user may do in the project. Raises NotFound when they are not in it."""
    return Role(membership_get(user=user, project=project).role)


def key_list(*, project: Project) -> QuerySet[ApiKey]:
    """The keys of a project, newest first, revoked ones included."""
    return (
        ApiKey.objects.select_related("user").filter(project=project).order_by("-created_at", "-id")
    )
