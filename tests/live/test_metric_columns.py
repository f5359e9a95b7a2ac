"""Steps as columns: nothing counted twice, no peak lost, as many points as were asked for."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import InvalidRequest
from console.live.models import EventRecord
from console.live.selectors import metric_columns
from support.generated import any_speed
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.points import (
    MetricAxis,
    buckets,
    column,
    columns_make,
    measures_unknown,
)

CREATED = datetime(2030, 1, 1, tzinfo=UTC)


def steps_record(numbers: list[int], session_id: str = "a") -> list[int]:
    """A metric entry for each number, whose reward is a tenth of it; their cursors."""
    common = {"episodes": 4, "tokens_trained": 100}
    rows = [
        EventRecord(
            session_id=session_id,
            kind=EventKind.METRIC,
            data={"step": n, "reward_mean": n / 10, "loss": 1.0, **common},
        )
        for n in numbers
    ]
    return [row.id for row in EventRecord.objects.bulk_create(rows)]


def columns(**options):
    asked = {"names": ["reward_mean"], "axis": MetricAxis.STEP, "after": 0, "points": 100} | options
    return metric_columns(session_id="a", created_at=CREATED, **asked)


@any_speed
@given(count=st.integers(0, 3000), points=st.integers(1, 500))
def test_every_step_is_in_exactly_one_point_and_points_are_even(count: int, points: int) -> None:
    stretches = buckets(count, points)
    assert [n for stretch in stretches for n in range(count)[stretch]] == list(range(count))
    sizes = {stretch.stop - stretch.start for stretch in stretches}
    assert len(stretches) == min(count, points) and (not sizes or max(sizes) - min(sizes) <= 1)


def test_a_point_has_the_value_of_its_last_step_and_the_extremes_of_all() -> None:
    told = column([1.0, 5.0, None, 3.0, None, None], [slice(0, 2), slice(2, 4), slice(4, 6)])
    assert (told.last, told.low, told.high) == (
        [5.0, 3.0, None],
        [1.0, 3.0, None],
        [5.0, 3.0, None],
    )
    exact = column([1.0, None], [slice(0, 1), slice(1, 2)])
    assert (exact.last, exact.low, exact.high) == ([1.0, None], None, None)


def test_what_a_step_measured_as_a_list_is_no_column_and_leaves_the_others_readable() -> None:
    lists = {"engine_gap_by_position": [0.1, None], "engine_gap_by_probability": [0.2, 0.3]}
    step = {"id": 1, "step": 1, "reward_mean": 0.5, "metrics": {"moves": 3.0}, **lists}
    found = columns_make([step], cursor=1, axis=MetricAxis.STEP).columns
    assert found["reward_mean"].last == [0.5] and found["metrics/moves"].last == [3.0]
    assert set(lists) & set(found) == set()
    assert measures_unknown([*lists, "metrics", "step", "loss"]) == sorted(
        [*lists, "metrics", "step"]
    )


@pytest.mark.django_db
def test_a_step_done_again_counts_once_with_its_last_record() -> None:
    steps_record([1, 2, 3])
    EventRecord.objects.create(session_id="a", kind=EventKind.LOG, data={"line": "x"})
    again = EventRecord.objects.create(
        session_id="a",
        kind=EventKind.METRIC,
        data={"step": 2, "reward_mean": 9.0, "episodes": 4, "tokens_trained": 100},
    )
    steps_record([7], session_id="b")
    told = columns()
    assert (told.steps, told.columns["reward_mean"].last) == ([1, 2, 3], [0.1, 9.0, 0.3])
    assert (told.steps_in_all, told.cursor) == (3, again.id)


@pytest.mark.django_db
def test_more_steps_than_points_are_put_together_at_the_place_of_the_last() -> None:
    steps_record(list(range(1, 11)))
    told = columns(points=3, axis=MetricAxis.EPISODES)
    assert told.steps == [3, 6, 10] and told.x == [12, 24, 40]
    reward = told.columns["reward_mean"]
    assert reward.last == [0.3, 0.6, 1.0]
    assert (reward.low, reward.high) == ([0.1, 0.4, 0.7], [0.3, 0.6, 1.0])
    part = columns(points=4, axis=MetricAxis.EPISODES, x_from=20, x_to=32)
    assert (part.steps, part.x, part.steps_in_all) == ([5, 6, 7, 8], [20, 24, 28, 32], 4)


@pytest.mark.system
@pytest.mark.django_db
def test_what_came_after_a_cursor_goes_on_where_its_axis_was() -> None:
    cursors = steps_record([1, 2, 3, 4])
    told = columns(after=cursors[1], axis=MetricAxis.TOKENS, names=[])
    assert (told.steps, told.x) == ([3, 4], [300, 400])
    assert {
        "loss",
        "reward_mean",
        "kl_engine",
    } <= told.columns.keys() and "step" not in told.columns
    assert told.columns["kl_engine"].last == [None, None]


@pytest.mark.django_db
def test_a_session_without_steps_has_no_points_and_an_unknown_measure_is_named() -> None:
    assert (columns().x, columns().cursor) == ([], 0)
    with pytest.raises(InvalidRequest, match="rewrad") as caught:
        columns(names=["loss", "rewrad"])
    assert "reward_mean" in str(caught.value.hint)


@pytest.mark.django_db
def test_what_agents_measured_has_columns_of_its_own() -> None:
    for step, own in ((1, {"turns": 2.0}), (2, {}), (3, {"turns": 4.0, "reward/format": 1.0})):
        data = {"step": step, "reward_mean": 0.5, "metrics": own}
        EventRecord.objects.create(session_id="a", kind=EventKind.METRIC, data=data)
    told = columns(names=[])
    assert told.columns["metrics/turns"].last == [2.0, None, 4.0]
    assert (
        told.columns["metrics/reward/format"].last == [None, None, 1.0]
        and "metrics" not in told.columns
    )
    assert columns(names=["metrics/turns"], points=1).columns["metrics/turns"].low == [2.0]


@pytest.mark.django_db
def test_names_that_change_at_every_step_do_not_add_columns_without_end() -> None:
    for step in range(1, 6):
        own = {f"{step}-{number}": 1.0 for number in range(50)} | {"turns": 2.0}
        data = {"step": step, "reward_mean": 0.5, "metrics": own}
        EventRecord.objects.create(session_id="a", kind=EventKind.METRIC, data=data)
    own = [name for name in columns(names=[]).columns if name.startswith("metrics/")]
    assert len(own) == 100 and "metrics/turns" in own
    assert columns(names=["metrics/5-49"]).columns["metrics/5-49"].last[-1] == 1.0
