"""``manage.py erase_person EMAIL``: what a person asks for who leaves."""

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.operations.erasure import person_erase


class Command(ServerCommand):
    help = (
        "Erase a person, and the projects that no one else owns with everything in them. There "
        "is no way back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: object, email: str, **options: object) -> None:
        erased = person_erase(email=email)
        self.stdout.write(f"{email} is erased, with projects: {', '.join(erased) or 'none'}")
        self.stdout.write(
            "The audit log still says what they did. Bytes in the store go within a minute."
        )
