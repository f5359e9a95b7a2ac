"""The migrations make the tables that the models describe, in one line of history."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def test_no_model_has_changed_without_a_migration(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_history_is_one_line(db):
    assert len(MigrationLoader(None).graph.leaf_nodes("console")) == 1


def test_a_database_of_another_version_is_refused_before_anything_is_written(db):
    MigrationRecorder(connection).record_applied("console", "0070_of_another_version")
    with pytest.raises(CommandError, match=r"has 0070_of_another_version, .* empty folder .* UPGRADING\.md"):
        call_command("migrate", verbosity=0)


def test_a_database_that_is_up_to_date_is_taken(db):
    call_command("migrate", verbosity=0)
