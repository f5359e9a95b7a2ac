"""``manage.py prepare``: what must be there before servers start that are deployed one by one."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from console.config.data_folder import data_files_close
from console.errors import StorageUnavailable
from console.object_store import client as object_store
from console.users.sealing import sealed_renew

TIMEOUT_S = 120.0


class Command(BaseCommand):
    help = (
        "Bring the database up to date and make the bucket. Safe to run again; `manage.py up` "
        "does it by itself."
    )
    # they import every view, which takes a second and concerns the web server alone
    requires_system_checks = []

    def handle(self, **options: object) -> None:
        data_files_close(settings.DATA)
        call_command("migrate", interactive=False, verbosity=0)
        if settings.SECRET_KEY_FALLBACKS:
            sealed_renew()
        try:
            object_store.ready_wait(timeout_s=TIMEOUT_S)
        except StorageUnavailable as error:
            raise CommandError(f"{error.message} {error.hint}") from None
        self.stdout.write("the database and the store are ready")
