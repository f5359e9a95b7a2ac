"""What the commands of this server have in common."""

from django.core.management.base import BaseCommand, CommandError

from console.errors import DomainError


class ServerCommand(BaseCommand):
    """One that says in words what a service refuses. Without system checks: they import every view,
    which takes a second and concerns the web server alone.
    """

    requires_system_checks = []

    def execute(self, *args: object, **options: object) -> str | None:
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from None
