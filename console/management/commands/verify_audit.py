"""``manage.py verify_audit``: is the audit log as it was written?"""

import argparse

from django.core.management.base import BaseCommand, CommandError

from console.audit.models import AuditHead
from console.audit.services import chain_verify, chains


class Command(BaseCommand):
    help = (
        "Check the hash chain of every project's audit log; print the last number and hash of each, to be kept "
        "elsewhere: who can write the whole database could write a whole new chain."
    )
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("projects", nargs="*", help="Ids of projects; all of them if none is given.")

    def handle(self, *, projects: list[str], **options: object) -> None:
        problems = []
        for project_id in projects or chains():
            found = list(chain_verify(project_id=project_id))
            problems += found
            head = AuditHead.objects.filter(project_id=project_id).first()
            if not found:
                self.stdout.write(f"{project_id} {head.number if head else 0} {head.sha256 if head else '-'}")
        if problems:
            raise CommandError("\n".join(problems))
