"""``manage.py backup FOLDER``: a whole server in one folder."""

from pathlib import Path

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.operations.backups import backup_write, store_available


class Command(ServerCommand):
    help = (
        "Write every row and object of this server into a new folder. The server may run meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: object, folder: Path, **options: object) -> None:
        with store_available():
            counts = backup_write(folder)
        self.stdout.write(
            f"{counts['sessions']} sessions and {counts['objects']} objects in {folder}"
        )
