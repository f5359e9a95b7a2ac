"""``manage.py add_model NAME SOURCE``: a base model for everybody on this server."""

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.operations.model_adding import model_add


class Command(ServerCommand):
    help = "Copy a model to DATA/models, hash it, load it once, and list it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="how sessions call it")
        parser.add_argument(
            "source",
            help="a folder, s3://PREFIX of the server's bucket, or hf://OWNER/NAME[@REVISION]",
        )

    def handle(self, *args: object, name: str, source: str, **options: object) -> None:
        record = model_add(name=name, source=source, progress=self.stderr.write)
        self.stdout.write(f"{name}: {len(record['files'])} files, {record['parameters']} weights")
