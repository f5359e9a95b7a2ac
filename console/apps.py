"""The control plane as a Django app: commands, administration and what connects its subjects.

Each subject is an app of its own beside it, with its models and migrations.
"""

from django.apps import AppConfig, apps
from django.core.management.base import CommandError
from django.db import connections
from django.db.models.signals import pre_migrate


class ConsoleConfig(AppConfig):
    """It has no tables."""

    name = "console"

    def ready(self) -> None:
        # Their receivers are connected from here on.
        from console.sessions.sharing import services  # noqa: F401
        from console.users import sign_ins, sign_up  # noqa: F401

        # Django sends it once for each app that has models.
        pre_migrate.connect(_foreign_database_refuse, sender=apps.get_app_config("users"))


def _foreign_database_refuse(*, using: str, **_: object) -> None:
    """Receiver of ``pre_migrate``. Raises CommandError where migrations were applied that this
    version does not have: Django would ignore them, and leave the tables of the other version as
    they are."""
    from django.db.migrations.loader import MigrationLoader

    ours = {app.label for app in apps.get_app_configs() if app.name.partition(".")[0] == "console"}
    loader = MigrationLoader(connections[using])
    foreign = sorted(set(loader.applied_migrations) - set(loader.disk_migrations))
    if named := [f"{app}.{name}" for app, name in foreign if app in ours]:
        raise CommandError(
            f"The database was made by another version of TinkerScript: it has {named[-1]}, which "
            "this one lacks. "
            "Versions before 1.0 are not upgraded in place. Set TINKERSCRIPT_DATA to an empty "
            "folder (and DATABASE_URL "
            "to an empty database, where it is set), or go on with the version that made this one. "
            "UPGRADING.md "
            "describes how to keep models and trajectories."
        )
