"""Limit what one project may use at once."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.base import ServerCommand
from console.users.models import Project

# Option: the column, and how many of its units one of the option's is.
COLUMNS = {
    "devices": ("device_quota", 1),
    "sessions": ("session_quota", 1),
    "storage_gib": ("storage_quota_bytes", 1 << 30),
}


class Command(ServerCommand):
    help = (
        "Limit a project: devices in use at once, sessions that have not ended, storage. `none` "
        "lifts a limit."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", help="its id, prj_...")
        parser.add_argument(
            "--devices", type=limit, help="GPUs in use at once; a runtime without one counts as one"
        )
        parser.add_argument("--storage-gib", type=limit, help="GiB of committed checkpoints")
        parser.add_argument("--sessions", type=limit, help="sessions that have not ended")

    def handle(self, *args: object, project: str, **options: Any) -> None:
        row = Project.objects.filter(id=project).first()
        if row is None:
            raise CommandError(f"There is no project {project}.")
        for name, (column, unit) in COLUMNS.items():
            if (wanted := options[name]) is not None:
                setattr(row, column, None if wanted == "none" else wanted * unit)
        row.save()
        limits = [
            f"{name} {_shown(getattr(row, column), unit)}"
            for name, (column, unit) in COLUMNS.items()
        ]
        self.stdout.write(f"{row.id}: {', '.join(limits)}")


def limit(text: str) -> int | str:
    """A whole number, or ``none``."""
    return "none" if text == "none" else int(text)


def _shown(value: int | None, unit: int) -> str:
    return "no limit" if value is None else str(value // unit)
