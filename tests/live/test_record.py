"""The record: numbered, in order, once."""

import itertools

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from console.live.models import EventRecord
from console.live.selectors import event_cursor_latest, event_list, marks_spread
from console.live.services import event_record, events_record
from support.generated import any_speed
from tinkerscript.wire.events import EventKind, EventPage
from tinkerscript.wire.reading.points import is_mark, marks_thin
from tinkerscript.wire.runtime import ReportEntry

pytestmark = pytest.mark.django_db


def entry(key: str, **data: object) -> ReportEntry:
    return ReportEntry(key=key, kind=EventKind.LOG, data=data)


def keys(session_id: str) -> list[str | None]:
    return list(
        EventRecord.objects.filter(session_id=session_id)
        .order_by("id")
        .values_list("key", flat=True)
    )


def test_cursors_grow_and_belong_to_one_session() -> None:
    first = event_record(session_id="a", kind=EventKind.EVENT, data={"name": "one"})
    event_record(session_id="b", kind=EventKind.EVENT, data={"name": "other"})
    second = event_record(session_id="a", kind=EventKind.LOG, data={"line": "two"})
    assert second.id > first.id
    assert [event.cursor for event in event_list(session_id="a", after=0, limit=10)] == [
        first.id,
        second.id,
    ]
    assert [event.cursor for event in event_list(session_id="a", after=first.id, limit=10)] == [
        second.id
    ]
    assert [event.cursor for event in event_list(session_id="a", after=0, limit=1)] == [first.id]
    logs = event_list(session_id="a", after=0, limit=9, kinds=[EventKind.LOG])
    assert [event.cursor for event in logs] == [second.id]
    assert (event_cursor_latest(session_id="a"), event_cursor_latest(session_id="none")) == (
        second.id,
        0,
    )


def test_the_newest_entries_come_oldest_first() -> None:
    made = [event_record(session_id="a", kind=EventKind.EVENT, data={"n": n}).id for n in range(5)]
    event_record(session_id="a", kind=EventKind.LOG, data={})
    kinds = [EventKind.EVENT, EventKind.STATE]
    newest = event_list(session_id="a", after=0, limit=2, kinds=kinds, newest=True)
    assert [event.cursor for event in newest] == made[-2:]
    assert [
        event.cursor
        for event in event_list(session_id="a", after=made[3], limit=2, newest=True, kinds=kinds)
    ] == [made[4]]


def test_marks_alone_are_read_however_much_came_between_them() -> None:
    states = [
        {"from": origin, "to": to}
        for origin in ("queued", "provisioning", "loading", "ready", "suspended", "stopping")
        for to in ("queued", "ready")
    ]
    events = [
        {"name": name, "step": 1} for name in ("checkpoint_committed", "step_refused", "stuck")
    ] + [{}]
    for _ in range(3):
        for data in states:
            event_record(session_id="a", kind=EventKind.STATE, data=data)
        for data in events:
            event_record(session_id="a", kind=EventKind.EVENT, data=data)
            event_record(session_id="a", kind=EventKind.LOG, data=data)
    every = event_list(session_id="a", after=0, limit=1000)
    expected = [event.cursor for event in every if is_mark(event.kind, event.data)]
    assert len(expected) == 3 * (4 + 2)
    assert [
        event.cursor for event in event_list(session_id="a", after=0, limit=1000, marks=True)
    ] == expected
    newest = event_list(session_id="a", after=0, limit=4, marks=True, newest=True)
    assert [event.cursor for event in newest] == expected[-4:]


def test_very_many_marks_are_thinned_to_all_kinds_over_the_whole_record() -> None:
    cursors: dict[str, list[int]] = {"checkpoint_committed": [], "step_refused": [], "state": []}

    def mark(name: str) -> None:
        data = {"from": "ready", "to": "queued"} if name == "state" else {"name": name, "step": 1}
        kind = EventKind.STATE if name == "state" else EventKind.EVENT
        cursors[name].append(event_record(session_id="a", kind=kind, data=data).id)

    mark("state")
    for _ in range(60):
        mark("checkpoint_committed")
        event_record(session_id="a", kind=EventKind.LOG, data={})
    mark("state")
    for _ in range(40):
        mark("checkpoint_committed")
        mark("step_refused")
    mark("step_refused")
    page = marks_spread(session_id="a", after=0, limit=32)
    kept = {
        name: [event.cursor for event in page.items if event.cursor in of]
        for name, of in cursors.items()
    }
    assert [len(kept[name]) for name in cursors] == [15, 15, 2] and page.left_out == 143 - 32
    assert kept["state"] == cursors["state"], "of a rare kind none is missing"
    for name in ("checkpoint_committed", "step_refused"):
        places = [cursors[name].index(cursor) for cursor in kept[name]]
        apart = {after - before for before, after in itertools.pairwise(places)}
        assert (places[0], places[-1]) == (0, len(cursors[name]) - 1) and max(apart) - min(
            apart
        ) <= 1
    every = marks_spread(session_id="a", after=0, limit=1000)
    assert [event.cursor for event in every.items] == sorted(
        itertools.chain(*cursors.values())
    ) and not every.left_out
    assert every.items == event_list(session_id="a", after=0, limit=1000, marks=True)
    assert marks_spread(session_id="b", after=7, limit=9) == EventPage(items=[], next_cursor=7)


@any_speed
@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 50))
def test_marks_are_thinned_to_the_limit_and_no_further(kinds: list[str], limit: int) -> None:
    kept = marks_thin(list(enumerate(kinds)), limit)
    assert len(kept) == len(set(kept)) == min(limit, len(kinds)) and kept == sorted(kept)
    if limit >= 3:
        assert {kinds[cursor] for cursor in kept} == set(kinds)


def test_a_repeated_report_adds_nothing_and_loses_nothing() -> None:
    events_record(session_id="a", entries=[entry("1"), entry("2")])
    events_record(session_id="a", entries=[entry("1", changed=True), entry("2"), entry("3")])
    events_record(session_id="b", entries=[entry("1")])
    assert keys("a") == ["1", "2", "3"]
    assert keys("b") == ["1"]
    assert not EventRecord.objects.filter(data__has_key="changed").exists()


def test_a_keyed_entry_is_written_once() -> None:
    first = event_record(session_id="a", kind=EventKind.EVENT, data={"n": 1}, key="k")
    again = event_record(session_id="a", kind=EventKind.EVENT, data={"n": 2}, key="k")
    assert again.id == first.id
    assert again.data == {"n": 1}


def test_no_one_is_woken_for_what_was_rolled_back(django_capture_on_commit_callbacks) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        with pytest.raises(RuntimeError), transaction.atomic():
            event_record(session_id="a", kind=EventKind.EVENT, data={})
            raise RuntimeError
        assert not EventRecord.objects.exists()
    assert callbacks == []


def test_a_broken_layer_does_not_undo_the_record(
    monkeypatch, django_capture_on_commit_callbacks
) -> None:
    class Broken:
        async def group_send(self, group: str, message: dict) -> None:
            raise ConnectionError("the layer is away")

    monkeypatch.setattr("console.live.services.get_channel_layer", Broken)
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        event_record(session_id="a", kind=EventKind.EVENT, data={})
    assert len(callbacks) == 1
    assert EventRecord.objects.count() == 1
