"""``manage.py verify_audit``: is the audit log as it was written?"""

import argparse
from pathlib import Path

from django.core.management.base import CommandError

from console.audit.models import AuditHead
from console.audit.services import chain_verify, chains, heads_compare
from console.errors import StorageUnavailable
from console.management.base import ServerCommand
from console.scheduling.audit_heads import audit_heads_kept


class Command(ServerCommand):
    help = (
        "Check the hash chain of every project's audit log, and that this server wrote it; print "
        "the last number and "
        "hash of each. With --against also that nothing was cut off or deleted whole since such "
        "lines were kept."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "projects", nargs="*", help="Ids of projects; all of them if none is given."
        )
        parser.add_argument(
            "--against",
            metavar="FILE",
            help="Lines that this command printed earlier, or `store`: those that the server keeps "
            "every hour.",
        )

    def handle(self, *, projects: list[str], against: str | None, **options: object) -> None:
        problems = self._compare(against, projects) if against else []
        for project_id in projects or chains():
            found = list(chain_verify(project_id=project_id))
            problems += found
            head = AuditHead.objects.filter(project_id=project_id).first()
            if not found:
                self.stdout.write(
                    f"{project_id} {head.number if head else 0} {head.sha256 if head else '-'}"
                )
        if problems:
            raise CommandError("\n".join(problems))

    def _compare(self, against: str, projects: list[str]) -> list[str]:
        try:
            lines = (
                list(audit_heads_kept())
                if against == "store"
                else Path(against).read_text().splitlines()
            )
            if not lines:
                raise CommandError(f"{against} has no lines to compare with.")
            return list(dict.fromkeys(heads_compare(lines, projects=projects)))
        except (OSError, ValueError, StorageUnavailable) as error:
            raise CommandError(f"{against} cannot be read: {error}") from error
