"""Usage: what runtimes were seen to use, by session and by project, and nothing that was not
measured.
"""

from datetime import timedelta
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db.models import F
from django.test import Client
from django.utils import timezone

from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions.limits.devices import devices_sync
from console.sessions.limits.usage import usage_sum
from console.sessions.models import Checkpoint, RuntimeSpan, Session, UsageSum
from console.sessions.runtime.leases import (
    lease_check,
    lease_issue,
    runtime_heartbeat,
    runtime_report,
)
from console.sessions.services import session_delete
from console.users.models import Project
from support import factories
from tinkerscript.wire.account import Role
from tinkerscript.wire.runtime import Report, ReportEntry, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState

READY = RuntimeState(state=RuntimeStage.READY, progress=1)


def usage(client: Client, query: str = "") -> dict:
    return client.get(f"/v1/usage{query}").json()


def seen_later(session: Session, seconds: float) -> None:
    """Let the runtime's heartbeats be ``seconds`` older than they are: as if it had been there for
    so long.
    """
    RuntimeSpan.objects.filter(session_id=session.id).update(
        started_at=timezone.now() - timedelta(seconds=seconds)
    )


STEP = {
    "reward_mean": 0.1, "reward_std": 0.1, "loss": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5, "kl_engine": 0.0,
    "entropy": 1.0, "clip_fraction": 0.0, "episodes": 8, "groups": 1, "groups_skipped": 0, "tokens_computed": 20,
    "staleness_max": 0, "completion_length_mean": 4.0, "rollout_s": 1.0, "train_s": 1.0, "handover_s": 0.1,
}  # fmt: skip


def trained(token: str, *tokens: int) -> None:
    """The runtime reports steps that trained so many tokens."""
    steps = [
        STEP | {"step": step, "tokens_trained": each} for step, each in enumerate(tokens, start=1)
    ]
    entries = [ReportEntry(key=f"step {step['step']}", kind="metric", data=step) for step in steps]
    runtime_report(session=lease_check(token=token), body=Report(entries=entries))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands: what was used is then exact, however long a test is held up."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)


@pytest.fixture
def client(api_key: str, client_for) -> Client:
    return client_for(api_key)


def test_time_before_the_first_heartbeat_is_not_counted(project, client) -> None:
    session, token = factories.runtime_make(project)
    assert usage(client)["items"][0]["runtime_s"] == 0  # no runtime was seen yet
    seen_later(session, 90)
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    used = usage(client)["items"][0]
    assert used["runtime_s"] == pytest.approx(90)
    assert used["gpu_s"] == 0


def test_the_last_week_has_the_part_of_a_runtime_that_is_in_it(project, client) -> None:
    day_s = 86_400
    now = timezone.now()
    for begun_days_ago, seen_days_ago, gpus in ((9, 6, 2), (2, 1, 0), (20, 8, 4)):
        session, _ = factories.runtime_make(project)
        RuntimeSpan.objects.filter(session_id=session.id).update(
            started_at=now - timedelta(days=begun_days_ago),
            seen_at=now - timedelta(days=seen_days_ago),
            gpus=gpus,
        )
    for _ in range(2):
        assert sum(each["runtime_s"] for each in usage(client)["items"]) == pytest.approx(
            16 * day_s
        )
        week = usage(client)["last_7_days"]
        assert week["runtime_s"] == pytest.approx(2 * day_s) and week["gpu_s"] == pytest.approx(
            2 * day_s
        )
        Session.objects.update(lease_sha256="")  # over: the next time they are added up
        usage_sum()
    assert RuntimeSpan.objects.filter(summed=True).exclude(summed_at=None).count() == 3


def test_a_runtime_whose_lease_was_replaced_adds_nothing_and_its_time_stays(
    project, client
) -> None:
    session, token = factories.runtime_make(project)
    seen_later(session, 60)
    first = lease_check(token=token)
    runtime_heartbeat(session=first, body=READY)
    lease_issue(session=session)
    before = usage(client)["items"][0]["runtime_s"]
    with pytest.raises(Exception, match="lease"):
        runtime_heartbeat(session=first, body=READY)
    assert usage(client)["items"][0]["runtime_s"] == before == pytest.approx(60)


def test_gpus_multiply_and_steps_and_tokens_are_those_of_the_record(project, client) -> None:
    session, token = factories.runtime_make(project, policy_version_high=2)
    RuntimeSpan.objects.update(gpus=4)
    seen_later(session, 10)
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    for _ in range(2):  # a repeated report is not counted twice
        trained(token, 300, 200)
    used = usage(client)["items"][0]
    assert used["gpu_s"] == pytest.approx(4 * used["runtime_s"])
    assert (used["steps"], used["tokens_trained"]) == (2, 500)


def test_the_total_is_of_all_sessions_whatever_the_page(project, client) -> None:
    sessions = [
        factories.runtime_make(project, SessionState.READY, policy_version_high=1) for _ in range(3)
    ]
    for session, token in sessions:
        RuntimeSpan.objects.filter(session_id=session.id).update(
            seen_at=F("started_at") + timedelta(seconds=20)
        )
        trained(token, 10)
    first = usage(client, "?limit=2")
    second = usage(client, f"?limit=2&cursor={first['next_cursor']}")
    assert (len(first["items"]), len(second["items"]), second["next_cursor"]) == (2, 1, None)
    assert first["total"] == second["total"]
    assert first["total"]["runtime_s"] == pytest.approx(60)
    assert (first["total"]["steps"], first["total"]["tokens_trained"]) == (3, 30)


def test_added_up_usage_reads_as_before_and_a_runtime_that_goes_on_is_left_out(
    project, client, alice
) -> None:
    now, hour = timezone.now(), timedelta(hours=1)
    running, token = factories.runtime_make(project)
    over, _ = factories.runtime_make(project, SessionState.STOPPED)
    RuntimeSpan.objects.filter(session_id=running.id).update(
        started_at=now - 2 * hour, seen_at=now - hour
    )
    RuntimeSpan.objects.filter(session_id=over.id).update(
        started_at=now - 4 * hour, seen_at=now - hour, gpus=2
    )
    for number, seen in enumerate((now, now - hour, now - 9 * 24 * hour)):  # runtimes of before
        RuntimeSpan.objects.create(
            project=project, session_id=over.id, lease_sha256=str(number), gpus=number, started_at=seen - hour,
            seen_at=seen, key_id=over.key_id, person=alice,
        )  # fmt: skip
    before = {name: value for name, value in usage(client).items() if name != "quotas"}
    assert before["total"]["runtime_s"] == pytest.approx(7 * 3600)
    for _ in range(2):
        usage_sum()
        assert RuntimeSpan.objects.filter(summed=True).count() == 3, (
            "not of who holds its lease, nor of who just left"
        )
        after = usage(client)
        assert {name: after[name] for name in before} == before
    assert sum(UsageSum.objects.values_list("seconds", flat=True)) == pytest.approx(5 * 3600)
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    assert usage(client)["total"]["runtime_s"] == pytest.approx(8 * 3600)


def test_time_of_a_deleted_session_stays_in_the_total(project, client) -> None:
    session, token = factories.runtime_make(project)
    seen_later(session, 60)
    runtime_heartbeat(session=lease_check(token=token), body=READY)
    Session.objects.filter(id=session.id).update(state=SessionState.STOPPED, launch_handle=None)
    session_delete(project=project, session_id=session.id)
    assert usage(client)["items"] == []
    assert usage(client)["total"]["runtime_s"] == pytest.approx(60)


def test_what_the_project_has_now_stands_beside_its_limits(
    project, bob, client, monkeypatch
) -> None:
    other = Project.objects.exclude(id=project.id).get(memberships__user=bob)
    gpus = LauncherOptions(name="process", resources=Resources(gpus=2))
    devices_sync(ids=["0", "1"])
    monkeypatch.setattr(settings, "LAUNCHER", gpus)
    for owner in (project, other):  # what another project has is not counted
        ready, _ = factories.runtime_make(owner)
        factories.session_make(owner)
        factories.session_make(owner, state=SessionState.STOPPED)
        for state, size in (("committed", 700), ("committed", 300), ("uploading", 5000)):
            Checkpoint.objects.create(session=ready, kind="model", state=state, size_bytes=size)
    free = {"devices": 2, "sessions": 2, "storage_bytes": 6000}  # what is being uploaded counts too
    assert usage(client)["quotas"] == {
        name: {"used": used, "limit": None} for name, used in free.items()
    }
    call_command(
        "set_quota",
        project.id,
        "--devices",
        "4",
        "--sessions",
        "3",
        "--storage-gib",
        "1",
        stdout=StringIO(),
    )
    limits = {name: held["limit"] for name, held in usage(client)["quotas"].items()}
    assert limits == {"devices": 4, "sessions": 3, "storage_bytes": 1 << 30}


def test_every_member_sees_it_and_an_outsider_sees_their_own(project, alice, member, bob) -> None:
    session, _ = factories.runtime_make(project)
    viewer = factories.member_make(project, "vera", Role.VIEWER)
    for user in (alice, member, viewer):
        client = Client(headers={"X-Project-Id": project.id})
        client.force_login(user)
        assert [entry["session_id"] for entry in usage(client)["items"]] == [session.id]
    outside = Client()
    outside.force_login(bob)
    assert usage(outside)["items"] == []
    assert outside.get("/v1/usage", headers={"X-Project-Id": project.id}).status_code == 404
    assert Project.objects.count() == 4
