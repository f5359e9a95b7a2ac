"""What one person and a new project may have, on servers that others reach."""

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from console.config.amounts import PUBLIC, Limits, limits_read
from console.errors import QuotaExceeded
from console.live.models import EventRecord
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.models import RuntimeSpan, Session
from console.sessions.services import session_create
from console.users.keys import key_revoke
from console.users.models import ApiKey, Project
from console.users.services import project_create
from support import factories
from tinkerscript.wire.sessions import SessionCreate

BODY = SessionCreate(base_model=factories.BASE_MODEL)


def test_a_public_server_has_limits_and_one_of_this_machine_alone_has_none(monkeypatch) -> None:
    assert limits_read("http://127.0.0.1:8000") == Limits()
    assert limits_read("https://train.example.org") == PUBLIC
    monkeypatch.setenv("TINKERSCRIPT_LIMITS", "queued=3, projects=none,hours=24")
    found = limits_read("https://train.example.org")
    assert (found.queued, found.projects, found.hours, found.keys) == (3, None, 24, PUBLIC.keys)


@pytest.mark.parametrize(
    "text", ["queued", "queued=0", "queued=-1", "queued=many", "seats=3", "queued=1;keys=2"]
)
def test_a_malformed_limit_stops_start_up(text, monkeypatch) -> None:
    monkeypatch.setenv("TINKERSCRIPT_LIMITS", text)
    with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_LIMITS"):
        limits_read("https://train.example.org")


def test_a_new_project_begins_with_the_servers_quotas(alice, settings) -> None:
    settings.LIMITS = Limits(devices=2, sessions=7, storage_gib=5)
    made = project_create(user=alice, name="x")
    assert (made.device_quota, made.session_quota, made.storage_quota_bytes) == (2, 7, 5 << 30)


def test_a_person_owns_so_many_projects(alice, client_for, project, settings) -> None:
    settings.LIMITS = Limits(projects=3)
    for _ in range(2):
        project_create(user=alice, name="x")
    with pytest.raises(QuotaExceeded, match="you own 3"):
        project_create(user=alice, name="x")
    assert Project.objects.filter(memberships__user=alice).count() == 3


def test_a_person_has_so_many_keys(alice, project, settings) -> None:
    settings.LIMITS = Limits(keys=2)
    factories.key_make(project, alice)
    factories.key_make(project_create(user=alice, name="another"), alice)
    with pytest.raises(QuotaExceeded, match="you have 2"):
        factories.key_make(project, alice)
    key_revoke(project=project, user=alice, key_id=ApiKey.objects.filter(project=project).get().id)
    factories.key_make(project, alice)
    ApiKey.objects.filter(project=project).update(expires_at=timezone.now())
    factories.key_make(project, alice)


def test_a_person_has_so_many_queued_sessions_in_all_projects(
    alice, bob, project, settings
) -> None:
    settings.LIMITS = Limits(queued=2)
    for owned in (project, project_create(user=alice, name="another")):
        session_create(project=owned, body=BODY, person=alice)
    with pytest.raises(QuotaExceeded, match="you have 2"):
        session_create(project=project, body=BODY, person=alice)
    session_create(project=project, body=BODY, person=bob)
    Session.objects.filter(person=alice).update(state="ready")
    session_create(project=project, body=BODY, person=alice)


def test_a_session_that_ran_as_long_as_one_may_is_stopped_in_good_order(project, settings) -> None:
    settings.LIMITS = Limits(hours=2)
    now = timezone.now()
    session, _lease = factories.runtime_make(project)
    RuntimeSpan.objects.filter(session_id=session.id).update(
        started_at=now - timedelta(hours=1), seen_at=now
    )
    sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "run"
    RuntimeSpan.objects.filter(session_id=session.id).update(started_at=now - timedelta(hours=2))
    sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop"
    told = EventRecord.objects.get(session_id=session.id, data__name="budget_exhausted").data
    assert (told["limit"], told["allowed"], told["used"]) == ("hours", 2, 2)


def test_steps_of_a_tinker_client_count_and_its_models_are_not_saved_for_it(project) -> None:
    """Its runtime takes no order of a checkpoint: to wait for one would keep the session beyond its
    budget.
    """
    session, _lease = factories.runtime_make(
        project, kind="tinker", policy_version=3, policy_version_high=3
    )
    Session.objects.filter(id=session.id).update(budget={"steps": 3})
    sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop" and not session.checkpoints.exists()
