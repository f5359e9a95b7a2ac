"""A database that another version made is refused before anything is written to it."""

from pkgutil import iter_modules

from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from console import migrations

APP = "console"


def foreign_database_refuse(*, using: str, **_: object) -> None:
    """Receiver of ``pre_migrate``. Raises CommandError where migrations were applied that this
    version does not have: Django would ignore them, and leave the tables of the other version as
    they are."""
    known = {module.name for module in iter_modules(migrations.__path__)}
    applied = [name for app, name in MigrationRecorder(connections[using]).applied_migrations() if app == APP]
    if foreign := sorted(set(applied) - known):
        raise CommandError(
            f"The database was made by another version of TinkerScript: it has {foreign[-1]}, which this one lacks. "
            "Versions before 1.0 are not upgraded in place. Set TINKERSCRIPT_DATA to an empty folder (and DATABASE_URL "
            "to an empty database, where it is set), or go on with the version that made this one. UPGRADING.md "
            "describes how to keep models and trajectories."
        )
