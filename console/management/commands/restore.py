"""``manage.py restore FOLDER``: become the server that was backed up."""

from pathlib import Path

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.operations.backups import backup_restore, base_models_missing, store_available


class Command(ServerCommand):
    help = "Fill this server, which must be empty and not running, from a backup."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: object, folder: Path, **options: object) -> None:
        with store_available():
            counts = backup_restore(folder)
        self.stdout.write(f"{counts['sessions']} sessions and {counts['objects']} objects are back")
        if missing := base_models_missing():
            self.stdout.write(
                f"not here yet: the base models {', '.join(missing)}. A backup holds none: bring "
                "DATA/models and the "
                "settings of the old server. Until then sessions of these are not resumed."
            )
