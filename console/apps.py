"""The one Django app."""

from django.apps import AppConfig
from django.db.models.signals import pre_migrate


class ConsoleConfig(AppConfig):
    """Domain folders instead of apps: their labels would collide with Django's and Channels' own."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        # Their receivers are connected from here on.
        from console.operations.foreign_database import foreign_database_refuse
        from console.sessions.sharing import services  # noqa: F401
        from console.users import sign_ins, sign_up  # noqa: F401

        pre_migrate.connect(foreign_database_refuse, sender=self)
