"""``manage.py add_model NAME SOURCE``: a base model for everybody on this server."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.errors import DomainError
from console.operations.model_adding import model_add


class Command(BaseCommand):
    help = "Copy a model to DATA/models, hash it, load it once, and list it."
    # they import every view, which takes a second and concerns the web server alone
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="how sessions call it")
        parser.add_argument(
            "source",
            help="a folder, s3://PREFIX of the server's bucket, or hf://OWNER/NAME[@REVISION]",
        )

    def handle(self, *args: object, name: str, source: str, **options: object) -> None:
        try:
            record = model_add(
                name=name, source=source, progress=lambda step: self.stderr.write(step)
            )
        except DomainError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from None
        self.stdout.write(f"{name}: {len(record['files'])} files, {record['parameters']} weights")
