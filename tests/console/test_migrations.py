"""The migrations make the tables that the models describe, each subject's in one file."""

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def test_no_model_has_changed_without_a_migration(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_each_subject_has_one_initial_migration_until_the_first_upgrade_in_place(db):
    """Versions before 1.0 are not upgraded in place, so that a second one helps nobody."""
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("console.")}
    assert len(ours) == 7
    disk = [key for key in MigrationLoader(None).disk_migrations if key[0] in ours]
    assert sorted(disk) == sorted((label, "0001_initial") for label in ours)


@pytest.mark.parametrize("app", ["console", "training"])
def test_a_database_of_another_version_is_refused_before_anything_is_written(db, app):
    MigrationRecorder(connection).record_applied(app, "0070_of_another_version")
    with pytest.raises(
        CommandError, match=rf"has {app}.0070_of_another_version, .* empty folder .* UPGRADING\.md"
    ):
        call_command("migrate", verbosity=0)


def test_a_database_that_is_up_to_date_is_taken(db):
    call_command("migrate", verbosity=0)
