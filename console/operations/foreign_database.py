"""A database that another version made is refused before anything is written to it."""

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.loader import MigrationLoader


def foreign_database_refuse(*, using: str, **_: object) -> None:
    """Receiver of ``pre_migrate``. Raises CommandError where migrations were applied that this
    version does not have: Django would ignore them, and leave the tables of the other version as
    they are."""
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
