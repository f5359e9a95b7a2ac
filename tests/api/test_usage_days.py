"""Usage by day: cut at midnight, by member, model and key, within a period, with the caps of
keys.
"""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.test import Client

from console.sessions.limits.usage_days import usage_days
from console.sessions.models import RuntimeSpan, Session
from console.users.keys import key_create
from console.users.services import project_create
from support import factories
from tinkerscript.wire.account import Scope
from tinkerscript.wire.projects import DevicePrices, UsageBy

FIRST = date(2026, 11, 10)
HOUR = timedelta(hours=1)


def used(project, began: datetime, hours: float, **fields) -> None:
    """A runtime that held a session from then on for so long."""
    RuntimeSpan.objects.create(
        project=project,
        session_id="ses_1",
        lease_sha256=f"{RuntimeSpan.objects.count():064}",
        started_at=began,
        seen_at=began + hours * HOUR,
        **fields,
    )


@pytest.fixture
def spans(project, alice, settings) -> str:
    """Three days by two payers; returns the id of a key."""
    settings.DEVICE_PRICES = DevicePrices(gpu=2.0, cpu=0.5, currency="EUR")
    key, _ = key_create(
        project=project, user=alice, name="sweep", scopes=[Scope.EPISODES], spend_cap_s=36_000
    )
    evening = datetime(2026, 11, 10, 22, tzinfo=UTC)
    # until the 12th, 01:00
    used(project, evening, 27, gpus=2, key_id=key.id, person=alice, base_model="large")
    used(project, evening, 1, gpus=0, base_model="small")
    # two hours before FIRST
    used(project, evening - timedelta(days=1), 3, gpus=0, person=alice, base_model="small")
    return key.id


def told(
    project, by: UsageBy, last: date = date(2026, 11, 12)
) -> list[tuple[int, str | None, float, float | None]]:
    found = usage_days(project=project, first=FIRST, last=last, by=by)
    return [(day.date.day, day.id, day.device_s / 3600, day.cost) for day in found.days]


def test_a_runtime_counts_on_each_day_that_it_ran_on(project, spans) -> None:
    assert told(project, UsageBy.MODEL) == [
        (10, "large", 4, 8),
        (10, "small", 2, 1),
        (11, "large", 48, 96),
        (12, "large", 2, 4),
    ]
    assert told(project, UsageBy.MODEL, last=FIRST) == [(10, "large", 4, 8), (10, "small", 2, 1)]


def test_days_are_told_by_member_and_by_key_with_its_cap(project, alice, spans) -> None:
    by_member = usage_days(project=project, first=FIRST, last=FIRST, by=UsageBy.MEMBER).payers
    assert [(payer.name, payer.device_s / 3600, payer.runtime_s / 3600) for payer in by_member] == [
        (alice.email, 5, 3),
        ("no longer known, or no longer members", 1, 1),
    ]
    by_key = usage_days(project=project, first=FIRST, last=FIRST, by=UsageBy.KEY).payers
    assert [
        (payer.id, payer.name, payer.device_s / 3600, payer.cap_s, payer.ever_s) for payer in by_key
    ] == [
        (spans, "sweep", 4, 36_000, 54 * 3600),
        (None, "started by hand", 2, None, None),
    ]


def test_a_key_without_the_admin_scope_reads_days_by_model_alone(
    project, api_key, client_for
) -> None:
    client = client_for(api_key)
    assert client.get("/v1/usage/days").json()["days"] == []
    assert client.get("/v1/usage/days?by=member").status_code == 403
    for query in (
        "first=2026-11-12&last=2026-11-11",
        "first=2020-01-01&last=2026-11-11",
        "first=1&by=day",
    ):
        assert client.get(f"/v1/usage/days?{query}").status_code == 400, query


def test_days_of_another_project_are_not_told(project, spans, alice) -> None:
    other = project_create(user=alice, name="other")
    reader = Client(headers={"X-Project-Id": other.id})
    reader.force_login(alice)
    asked = f"/v1/usage/days?first={FIRST}&last=2026-11-12&by="
    assert [reader.get(asked + by.value).json()["payers"] for by in UsageBy] == [[], [], []]


def test_a_runtime_keeps_the_model_of_its_session(project) -> None:
    session, _token = factories.runtime_make(project)
    Session.objects.filter(id=session.id).delete()
    assert RuntimeSpan.objects.get().base_model == session.base_model
