"""``manage.py prepare``: what must be there before servers start that are deployed one by one."""

from django.conf import settings
from django.core.management import call_command

from console.config.data_folder import data_files_close
from console.management.base import ServerCommand
from console.object_store import client as object_store
from console.users.sealing import sealed_renew

TIMEOUT_S = 120.0


class Command(ServerCommand):
    help = (
        "Bring the database up to date and make the bucket. Safe to run again; `manage.py up` "
        "does it by itself."
    )

    def handle(self, **options: object) -> None:
        data_files_close(settings.DATA)
        call_command("migrate", interactive=False, verbosity=0)
        if settings.SECRET_KEY_FALLBACKS:
            sealed_renew()
        object_store.ready_wait(timeout_s=TIMEOUT_S)
        self.stdout.write("the database and the store are ready")
