"""What device time costs, who used it, who may read that, and where a budget is heading."""

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone

from console.config.amounts import prices_read
from console.sessions.models import RuntimeSpan, Session
from console.sessions.runtime.leases import lease_check, runtime_heartbeat, runtime_register
from console.users.models import ApiKey
from support import factories
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.projects import DevicePrices
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState

READY = RuntimeState(state=RuntimeStage.READY, progress=1)


def usage(client: Client, query: str = "") -> dict:
    return client.get(f"/v1/usage{query}").json()


@pytest.fixture
def client(api_key: str, client_for) -> Client:
    return client_for(api_key)


@pytest.fixture
def owner(project, alice) -> Client:
    """A person, who may read members and keys."""
    signed_in = Client(headers={"X-Project-Id": project.id})
    signed_in.force_login(alice)
    return signed_in


def spans_make(session: Session, *, hours: float, gpus: int, key_id: str | None = None) -> None:
    """A runtime that held the session for so long, up to now."""
    now = timezone.now()
    RuntimeSpan.objects.filter(session_id=session.id).delete()
    RuntimeSpan.objects.create(
        project_id=session.project_id,
        session_id=session.id,
        key_id=key_id,
        person_id=session.person_id,
        lease_sha256=session.id,
        gpus=gpus,
        started_at=now - timedelta(hours=hours),
        seen_at=now,
    )


@pytest.fixture
def prices(settings) -> None:
    settings.DEVICE_PRICES = DevicePrices(gpu=2.5, cpu=0.1, currency="EUR")


def test_without_prices_no_money_is_told(project, client, owner) -> None:
    session, _ = factories.runtime_make(project)
    spans_make(session, hours=2, gpus=2)
    told = usage(owner)
    parts = [told["total"], told["last_7_days"], *told["items"], *told["by_member"]]
    assert told["prices"] is None and {part["cost"] for part in parts} == {None}
    spending = client.get(f"/v1/sessions/{session.id}/usage").json()
    assert (spending["cost"], spending["cost_per_hour"], spending["prices"]) == (None, None, None)
    assert spending["device_s"] == pytest.approx(4 * 3600)


def test_each_kind_of_device_has_its_price(project, client, prices) -> None:
    for hours, gpus in ((2, 4), (3, 0)):
        session, _ = factories.runtime_make(project)
        spans_make(session, hours=hours, gpus=gpus)
    told = usage(client)
    assert [session["cost"] for session in told["items"]] == pytest.approx([0.3, 20])
    assert told["total"]["cost"] == told["last_7_days"]["cost"] == pytest.approx(20.3)
    assert told["total"]["device_s"] == pytest.approx(11 * 3600)
    assert told["prices"] == {"currency": "EUR", "gpu": 2.5, "cpu": 0.1}


def test_costs_are_those_of_the_key_and_of_the_member_who_started_the_session(
    project, alice, client, owner, prices
) -> None:
    bob, key = factories.member_make(project, "bob", Role.MEMBER), ApiKey.objects.get()
    by_hand, _ = factories.runtime_make(project, person=bob)
    spans_make(by_hand, hours=1, gpus=1)
    by_key, _ = factories.runtime_make(project, person=alice)
    spans_make(by_key, hours=2, gpus=1, key_id=key.id)
    deleted, _ = factories.runtime_make(project, person=alice)
    spans_make(deleted, hours=4, gpus=1, key_id=key.id)
    of_nobody, _ = factories.runtime_make(project)
    spans_make(of_nobody, hours=8, gpus=1)
    # who deletes a run has used it all the same
    Session.objects.filter(id__in=[by_hand.id, deleted.id]).delete()
    told = usage(owner)
    assert [(payer["id"], payer["name"], payer["cost"]) for payer in told["by_key"]] == [
        (key.id, key.name, pytest.approx(15))
    ]
    assert [(payer["name"], payer["cost"]) for payer in told["by_member"]] == [
        ("no longer known, or no longer members", pytest.approx(20)),
        (alice.email, pytest.approx(15)),
        (bob.email, pytest.approx(2.5)),
    ]
    assert (usage(client)["by_key"], usage(client)["by_member"]) == (None, None), (
        "no admin scope, no addresses"
    )
    admin = Client(
        headers={"Authorization": f"Bearer {factories.key_make(project, alice, [Scope.ADMIN])}"}
    )
    assert len(usage(admin)["by_member"]) == 3
    older = usage(owner, f"?limit=1&cursor={usage(owner, '?limit=1')['next_cursor']}")
    assert len(older["items"]) == 1 and older["by_member"] is None, "once, not on every page"


def test_a_runtime_is_of_the_person_who_started_its_session_by_hand_or_by_key(
    project, alice, api_key
) -> None:
    by_hand, _ = factories.runtime_make(project, person=alice)
    by_key, _ = factories.runtime_make(project, key=ApiKey.objects.get())
    spans = RuntimeSpan.objects.filter(session_id__in=[by_hand.id, by_key.id])
    assert [span.person for span in spans] == [alice, alice]


def test_the_cap_of_a_key_is_for_that_key_and_for_who_may_read_keys(
    project, alice, client, owner, client_for
) -> None:
    own = client_for(factories.key_make(project, alice))
    key = ApiKey.objects.latest("created_at")
    ApiKey.objects.filter(id=key.id).update(spend_cap_s=7200)
    session, _ = factories.runtime_make(project, key=key)
    spans_make(session, hours=1, gpus=1, key_id=key.id)

    def limits(reader: Client) -> list[tuple[str, float | None]]:
        told = reader.get(f"/v1/sessions/{session.id}/usage").json()
        return [(limit["limit"], limit["left_s"]) for limit in told["limits"]]

    assert limits(client) == []
    assert limits(own) == limits(owner) == [("spend_cap_s", pytest.approx(3600))]
    factories.runtime_make(project, key=key)
    assert limits(own) == [("spend_cap_s", None)], "another session of the key uses it too"


def test_a_budget_is_forecast_at_the_pace_so_far(project, client, prices) -> None:
    budget = {"steps": 100, "device_s": 10 * 3600, "wall_s": 4 * 3600}
    session, _ = factories.runtime_make(
        project, SessionState.READY, devices=2, budget=budget, policy_version_high=25
    )
    spans_make(session, hours=1, gpus=2)
    Session.objects.filter(id=session.id).update(created_at=timezone.now() - timedelta(hours=2))
    spending = client.get(f"/v1/sessions/{session.id}/usage").json()
    assert (spending["cost"], spending["cost_per_hour"]) == (pytest.approx(5), 5)
    limits = {one["limit"]: (one["left_s"], one["cost_at_limit"]) for one in spending["limits"]}
    assert limits == {
        "steps": (pytest.approx(3 * 3600), pytest.approx(20)),
        "device_s": (pytest.approx(4 * 3600), pytest.approx(25)),
        "wall_s": (pytest.approx(2 * 3600, abs=60), pytest.approx(15, abs=0.1)),
    }
    an_hour_ago = timezone.now() - timedelta(hours=1)
    Session.objects.filter(id=session.id).update(
        state=SessionState.STOPPED, state_since=an_hour_ago
    )
    spending = client.get(f"/v1/sessions/{session.id}/usage").json()
    assert spending["cost_per_hour"] is None and {one["left_s"] for one in spending["limits"]} == {
        None
    }
    used = {one["limit"]: one["used"] for one in spending["limits"]}
    assert used["wall_s"] == pytest.approx(3600, abs=60), "the clock of a run stops when it ends"


def test_before_the_first_runtime_nothing_is_forecast_but_the_clock(
    project, client, prices
) -> None:
    session = factories.session_make(project, budget={"steps": 10, "wall_s": 3600})
    limits = {
        one["limit"]: one for one in client.get(f"/v1/sessions/{session.id}/usage").json()["limits"]
    }
    assert (limits["steps"]["left_s"], limits["steps"]["cost_at_limit"]) == (None, None)
    assert (
        limits["wall_s"]["left_s"] == pytest.approx(3600, abs=60)
        and limits["wall_s"]["cost_at_limit"] is None
    )


def test_prices_are_read_and_a_malformed_one_stops_start_up(monkeypatch) -> None:
    assert prices_read() is None
    monkeypatch.setenv("TINKERSCRIPT_PRICES", "gpu=2.40, cpu=0,currency=EUR")
    assert prices_read() == DevicePrices(gpu=2.4, cpu=0, currency="EUR")
    for text in (
        "gpu=2",
        "gpu=2,cpu=-1",
        "gpu=2,cpu=nan",
        "gpu=2,cpu=1,tpu=3",
        "gpu=2,cpu=1,currency=euro",
        "2.40",
        "currency=EUR",
    ):
        monkeypatch.setenv("TINKERSCRIPT_PRICES", text)
        with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_PRICES"):
            prices_read()


def test_time_counts_from_the_registration_to_the_last_heartbeat(project, client, prices) -> None:
    session, token = factories.runtime_make(project, SessionState.PROVISIONING)
    waits_since = timezone.now() - timedelta(hours=10)  # in a cluster's own queue
    RuntimeSpan.objects.filter(session_id=session.id).update(
        started_at=waits_since, seen_at=waits_since
    )
    assert client.get(f"/v1/sessions/{session.id}/usage").json()["cost_per_hour"] is None
    runtime_register(session=lease_check(token=token))
    assert client.get(f"/v1/sessions/{session.id}/usage").json()["cost_per_hour"] == 0.1
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    assert usage(client)["items"][0]["runtime_s"] == pytest.approx(0, abs=60)
    now = timezone.now()  # it was last heard of an hour ago
    began, seen = now - timedelta(hours=3), now - timedelta(hours=1)
    RuntimeSpan.objects.filter(session_id=session.id).update(started_at=began, seen_at=seen)
    assert usage(client)["items"][0]["runtime_s"] == 7200
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    assert usage(client)["items"][0]["runtime_s"] == pytest.approx(10_800, abs=60)
