"""The control plane as a Django app: commands, administration and what connects its subjects.

Each subject is an app of its own beside it, with its models and migrations.
"""

from django.apps import AppConfig, apps
from django.db.models.signals import pre_migrate


class ConsoleConfig(AppConfig):
    """It has no tables."""

    name = "console"

    def ready(self) -> None:
        # Their receivers are connected from here on.
        from console.operations.foreign_database import foreign_database_refuse
        from console.sessions.sharing import services  # noqa: F401
        from console.users import sign_ins, sign_up  # noqa: F401

        # Django sends it once for each app that has models.
        pre_migrate.connect(foreign_database_refuse, sender=apps.get_app_config("users"))
