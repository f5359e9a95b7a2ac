"""Samples of a runtime's machine: kept in chunks of columns, read put together, gone with their
session.
"""

from types import SimpleNamespace

import pytest

from console.live import resources
from console.live.models import EventRecord, ResourceChunk
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime import leases
from console.sessions.services import session_delete
from support import factories
from tinkerscript.wire.reading.resources import GpuSample, ResourceSample
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db

SAMPLE = ResourceSample(
    cpu_cores=1.5, cores=4, memory_bytes=100, memory_used_bytes=300, memory_total_bytes=1000, disk_free_bytes=50,
    disk_total_bytes=80, gpus=[GpuSample(name="NVIDIA H100", busy=0.5, memory_bytes=7)],
)  # fmt: skip


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """The time of samples; ``now`` is set by the test."""
    clock = SimpleNamespace(now=2e9, time=lambda: clock.now)
    monkeypatch.setattr(resources, "time", clock)
    return clock


def beat(token: str, sample: ResourceSample | None, **other: object) -> None:
    body = RuntimeState(state=RuntimeStage.READY, progress=1, resources=sample, **other)
    leases.runtime_heartbeat(session=leases.lease_check(token=token), body=body)


def test_what_heartbeats_say_of_the_machine_is_read_as_columns(
    project, api_key, client_for, clock
) -> None:
    session, token = factories.runtime_make(project)
    Checkpoint.objects.create(session=session, kind="state", state="committed", size_bytes=512)
    cpu_only = SAMPLE.model_copy(update={"cpu_cores": 2.5, "gpus": []})
    for sample in (SAMPLE, None, cpu_only, SAMPLE):
        beat(token, sample)
        clock.now += 10
    path = f"/v1/sessions/{session.id}/resources"
    told = client_for(api_key).get(path).json()
    assert told["samples_in_all"] == 3 and [
        b - a for a, b in zip(told["x"], told["x"][1:], strict=False)
    ] == [20, 10]
    columns = {name: column["mean"] for name, column in told["columns"].items()}
    assert columns["cpu_cores"] == [1.5, 2.5, 1.5] and columns["store_bytes"] == [512] * 3
    assert columns["gpu0_busy"] == [0.5, None, 0.5] and columns["gpu0_power_w"] == [None] * 3
    assert told["latest"]["gpus"][0]["name"] == "NVIDIA H100" and told["latest"]["cores"] == 4
    (point,) = client_for(api_key).get(path, {"points": 1}).json()["columns"]["cpu_cores"]["high"]
    assert point == 2.5


def test_samples_are_kept_in_few_rows_and_not_more_often_than_they_should_come(
    project, clock, monkeypatch
) -> None:
    monkeypatch.setattr(resources, "CHUNK_SAMPLES", 3)
    session, token = factories.runtime_make(project)
    for _ in range(8):
        beat(token, SAMPLE)
        clock.now += 2.5  # every second one is too early
    rows = ResourceChunk.objects.filter(session_id=session.id).order_by("id")
    assert [len(row.columns["at"]) for row in rows] == [3, 1]
    told = resources.resource_columns(session_id=session.id, created_at=2e9, points=10)
    assert told.x == [0, 5, 10, 15]


def test_a_session_without_a_sample_has_none_and_a_deleted_one_leaves_none(
    project, api_key, client_for, clock
) -> None:
    session, token = factories.runtime_make(project)
    told = client_for(api_key).get(f"/v1/sessions/{session.id}/resources").json()
    assert told == {"x": [], "columns": {}, "latest": None, "samples_in_all": 0}
    beat(token, SAMPLE)
    session.refresh_from_db()
    session.state = SessionState.STOPPED
    session.launch_handle = None
    session.save()
    session_delete(project=project, session_id=session.id)
    assert not ResourceChunk.objects.exists()


@pytest.mark.parametrize("before", [SessionState.READY, SessionState.LOADING])
def test_a_phase_is_recorded_with_its_deadline_the_one_too_that_a_session_becomes_ready_in(
    project, before
) -> None:
    session, token = factories.runtime_make(project)
    Session.objects.filter(id=session.id).update(state=before)
    beat(token, None, phase="waiting for episodes", deadline_s=120)
    entry = EventRecord.objects.filter(
        session_id=session.id, data__phase="waiting for episodes"
    ).get()
    assert entry.data["deadline_s"] == 120


def test_what_is_kept_of_a_session_has_a_bound_and_what_is_older_is_sparser(
    clock, monkeypatch
) -> None:
    for name, value in (
        ("CHUNK_SAMPLES", 4),
        ("RECENT_CHUNKS", 3),
        ("OLDER_CHUNKS", 2),
        ("THINNED", 2),
    ):
        monkeypatch.setattr(resources, name, value)
    for _ in range(100):
        resources.resources_record(session_id="ses_long", sample=SAMPLE, store_bytes=0)
        clock.now += 10
    assert ResourceChunk.objects.count() == 5
    told = resources.resource_columns(session_id="ses_long", created_at=2e9, points=1000)
    assert told.x == [10 * number for number in [*range(73, 88, 2), *range(88, 100)]]
    assert told.columns["cpu_cores"].mean == [1.5] * len(told.x) and told.samples_in_all == len(
        told.x
    )


def test_samples_go_on_when_the_clock_was_set_back(project, clock) -> None:
    session, token = factories.runtime_make(project)
    beat(token, SAMPLE)
    clock.now -= 3600
    beat(token, SAMPLE)
    assert resources.resource_columns(session_id=session.id, created_at=2e9, points=10).x == [
        0,
        -3600,
    ]
