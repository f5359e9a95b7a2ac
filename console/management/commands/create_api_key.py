"""``manage.py create_api_key EMAIL``: a key on stdout, for scripts and for the first minute with a
server.
"""

import argparse

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction

from console.audit.services import audit_record
from console.management.base import ServerCommand
from console.users.keys import key_create
from console.users.models import Project, User
from console.users.selectors import project_get
from console.users.services import project_create, user_create
from console.users.sign_up import address_check
from tinkerscript.wire.account import KeyCreate, Scope


class Command(ServerCommand):
    help = "Print a new API key, and nothing else. The user and the project are created if absent."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument(
            "--project", help="Name or id of the project; the user's first one if not given."
        )
        parser.add_argument(
            "--scopes", help=f"Comma-separated: {', '.join(Scope)}. Default: all but admin."
        )

    def handle(
        self, *, email: str, project: str | None, scopes: str | None, **options: object
    ) -> None:
        try:
            address_check(email)
            chosen = (
                [Scope(scope.strip()) for scope in scopes.split(",")]
                if scopes
                else KeyCreate().scopes
            )
            with transaction.atomic():
                user = User.objects.filter(email=email.lower()).first() or user_create(
                    email=email, is_confirmed=True
                )
                row, secret = key_create(
                    project=_project(user, project), user=user, name="create_api_key", scopes=chosen
                )
                audit_record(
                    project_id=row.project_id,
                    actor="manage.py create_api_key",
                    action="key_create",
                    target={"id": row.id},
                    details={"scopes": row.scopes, "user": user.email},
                )
        except ValidationError:
            raise CommandError(f"{email!r} is not an e-mail address.") from None
        except ValueError as error:
            raise CommandError(f"{error}. Known scopes: {', '.join(Scope)}.") from None
        self.stdout.write(secret)


def _project(user: User, name: str | None) -> Project:
    """The user's project of this name or id, made if there is none."""
    if name is None:
        return project_get(user=user)
    mine = Project.objects.filter(memberships__user=user).order_by("created_at")
    return (
        mine.filter(id=name).first()
        or mine.filter(name=name).first()
        or project_create(user=user, name=name)
    )
