"""The migrations make the tables that the models describe, in one line of history."""

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from console.live.models import LogChunk
from console.sessions.limits.usage import recent_usage
from console.sessions.models import RuntimeSpan, Session
from console.users.models import ApiKey
from support.factories import session_make, user_make
from tinkerscript.wire.config import SessionConfig


def test_no_model_has_changed_without_a_migration(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_history_is_one_line(db):
    assert len(MigrationLoader(None).graph.leaf_nodes("console")) == 1


def test_a_session_of_before_keeps_its_clip_and_a_loss_without_one_is_still_read(project):
    clips = {"clip_low": 0.2, "clip_high": 0.2}
    kept, dro = (session_make(project, config=SessionConfig(loss=loss)) for loss in ("gspo", "dro"))
    for session in (kept, dro):
        Session.objects.filter(id=session.id).update(config=session.config | clips)
    import_module("console.migrations.0019_clip_bounds").clips_forget(apps, None)
    kept.refresh_from_db()
    dro.refresh_from_db()
    assert SessionConfig(**kept.config).clip_low == 0.2, "what it trained with"
    assert SessionConfig(**dro.config).clip_low is None


def test_addresses_of_accounts_that_the_operator_made_are_confirmed(db):
    made, squatted, taken = (user_make(name) for name in ("made", "squatted", "taken"))
    EmailAddress.objects.create(user=squatted, email=squatted.email, verified=False, primary=True)
    EmailAddress.objects.create(user=squatted, email=taken.email, verified=True)
    import_module("console.migrations.0031_vouched_addresses").addresses_confirm(apps, None)
    assert EmailAddress.objects.get(user=made).verified and EmailAddress.objects.get(user=made).primary
    assert not EmailAddress.objects.get(user=squatted, email=squatted.email).verified
    assert not EmailAddress.objects.filter(user=taken).exists()


def test_time_of_before_is_of_who_started_its_session_or_made_its_key(project, alice, api_key):
    by_hand, key = session_make(project, person=alice), ApiKey.objects.get()
    now = timezone.now()
    for number, (session_id, key_id) in enumerate([(by_hand.id, None), ("ses_deleted", key.id), ("ses_deleted", None)]):
        RuntimeSpan.objects.create(
            project=project, session_id=session_id, key_id=key_id, lease_sha256=str(number), started_at=now, seen_at=now
        )
    import_module("console.migrations.0043_span_persons").persons_fill(apps, None)
    assert [span.person for span in RuntimeSpan.objects.order_by("lease_sha256")] == [alice, alice, None]


def test_usage_of_the_last_week_has_what_an_older_server_added_up(project):
    now = timezone.now()
    for days, summed in ((1, True), (1, False), (30, True)):
        at = now - timedelta(days=days)
        RuntimeSpan.objects.create(
            project=project,
            lease_sha256=f"{days} {summed}",
            started_at=at - timedelta(hours=1),
            seen_at=at,
            summed=summed,
        )
    assert recent_usage(project=project, within=timedelta(days=7)).runtime_s == pytest.approx(3600)
    import_module("console.migrations.0066_when_recent_spans_were_added_up").moments_fill(apps, None)
    assert recent_usage(project=project, within=timedelta(days=7)).runtime_s == pytest.approx(2 * 3600)


def test_copies_of_journals_that_are_there_are_counted(project):
    one = {"path": "j", "size_bytes": 5, "sha256": "x", "key": "k"}
    journals = [None, one, {"files": [one, one | {"size_bytes": 7}]}]
    made = [session_make(project, journal=journal) for journal in journals]
    import_module("console.migrations.0069_bytes_of_journals_that_are_there").bytes_fill(apps, None)
    assert [Session.objects.get(id=session.id).journal_bytes for session in made] == [0, 5, 12]


def test_what_was_kept_of_the_log_of_a_last_runtime_is_its_first_chunk(db):
    before = ("console", "0057_logprobs_of_the_trainer")
    kept = MigrationLoader(None).project_state(before).apps.get_model("console", "RuntimeLog")
    table = kept._meta  # noqa: SLF001 - documented by Django
    columns = [(field.column, field.db_type(connection)) for field in table.fields]
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table.db_table} ({', '.join(' '.join(each) for each in columns)})")
    kept.objects.create(session_id="ses_a", lines=b"packed")
    models = {"RuntimeLog": kept, "LogChunk": LogChunk}
    import_module("console.migrations.0058_log_chunks").chunks_make(
        SimpleNamespace(get_model=lambda _, name: models[name]), None
    )
    (chunk,) = LogChunk.objects.all()
    assert (chunk.session_id, chunk.launch, bytes(chunk.lines)) == ("ses_a", "", b"packed")
