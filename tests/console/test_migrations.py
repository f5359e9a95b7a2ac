"""The migrations make the tables that the models describe, in one line of history."""

from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader


def test_no_model_has_changed_without_a_migration(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_history_is_one_line(db):
    assert len(MigrationLoader(None).graph.leaf_nodes("console")) == 1
