"""Samples of the machines that runtimes have: written in chunks of columns, read put together to
points.
"""

import time
from typing import Any

from console.live.models import ResourceChunk
from tinkerscript.wire.reading.points import buckets, column
from tinkerscript.wire.reading.resources import ResourceColumn, ResourceColumns, ResourceSample

CHUNK_SAMPLES = 60
RECENT_CHUNKS = 144  # a day of samples, which are all kept
OLDER_CHUNKS = 144  # of one sample in THINNED: thirty days before that day; what is older goes
THINNED = 30
MIN_BETWEEN_S = 5.0  # a runtime that samples more often than it should is not written more often
# read from the latest sample
CONSTANT = {"cores", "memory_total_bytes", "disk_total_bytes", "gpus"}

Columns = dict[str, list[float | None]]


def is_due(*, session_id: str) -> bool:
    """Whether the last sample of the session is old enough for another."""
    chunk = _last(session_id)
    # The distance: a clock that was set back must not end the samples for as long.
    return chunk is None or abs(time.time() - chunk.columns["at"][-1]) >= MIN_BETWEEN_S


def resources_record(
    *, session_id: str, sample: ResourceSample, store_bytes: int
) -> ResourceSample | None:
    """Add one sample; returns the one before it. The caller holds the session's row meanwhile."""
    measures = _measures(sample) | {"store_bytes": store_bytes}
    chunk = _last(session_id)
    before = None if chunk is None else ResourceSample.model_validate(chunk.latest)
    is_full = chunk is not None and len(chunk.columns["at"]) >= CHUNK_SAMPLES
    if chunk is None or is_full:
        chunk = ResourceChunk(session_id=session_id, columns={"at": []})
    _append(chunk.columns, {"at": time.time(), **measures})
    chunk.latest = sample.model_dump(mode="json")
    chunk.save()
    if is_full:
        _older_thin(session_id)
    return before


def resource_columns(*, session_id: str, created_at: float, points: int) -> ResourceColumns:
    """Every kept sample of the session as at most ``points`` points. ``created_at`` is the Unix
    time that x begins at.

    The caller has checked that the session is the reader's
    (console.sessions.selectors.session_get).
    """
    chunks = ResourceChunk.objects.filter(session_id=session_id).order_by("id")
    every: Columns = {"at": []}
    for columns in chunks.values_list("columns", flat=True):
        _join(every, columns)
    latest = chunks.values_list("latest", flat=True).last()
    at = every.pop("at")
    stretches = buckets(len(at), points) if at else []
    return ResourceColumns(
        x=[(at[stretch.stop - 1] or 0.0) - created_at for stretch in stretches],
        columns={
            name: ResourceColumn(
                **column(values, stretches).model_dump(exclude={"last"}),
                mean=_means(values, stretches),
            )
            for name, values in sorted(every.items())
        },
        latest=ResourceSample.model_validate(latest) if latest else None,
        samples_in_all=len(at),
    )


def _means(values: list[float | None], stretches: list[slice]) -> list[float | None]:
    known = [[value for value in values[stretch] if value is not None] for stretch in stretches]
    return [sum(some) / len(some) if some else None for some in known]


def _last(session_id: str) -> ResourceChunk | None:
    return ResourceChunk.objects.filter(session_id=session_id).order_by("-id").first()


def _older_thin(session_id: str) -> None:
    """Thin the one chunk that became older than RECENT_CHUNKS into those before it; remove what is
    older still.
    """
    chunks = ResourceChunk.objects.filter(session_id=session_id).order_by("-id")
    aged, before = [*chunks[RECENT_CHUNKS : RECENT_CHUNKS + 2], None, None][:2]
    if aged is None:
        return
    count = len(aged.columns["at"])
    thin = {name: values[(count - 1) % THINNED :: THINNED] for name, values in aged.columns.items()}
    if before is not None and len(before.columns["at"]) + len(thin["at"]) <= CHUNK_SAMPLES:
        _join(before.columns, thin)
        before.save()
        aged.delete()
    else:
        aged.columns = thin
        aged.save()
    beyond = list(chunks.values_list("id", flat=True)[RECENT_CHUNKS + OLDER_CHUNKS :])
    ResourceChunk.objects.filter(id__in=beyond).delete()


def _measures(sample: ResourceSample) -> dict[str, float | None]:
    """What is drawn of a sample, by the name of its column."""
    measures: dict[str, Any] = {
        name: value
        for name, value in sample.model_dump(mode="json").items()
        if name not in CONSTANT
    }
    for number, gpu in enumerate(sample.gpus):
        measures[f"gpu{number}_busy"] = gpu.busy
        measures[f"gpu{number}_memory_bytes"] = gpu.memory_bytes
        measures[f"gpu{number}_power_w"] = gpu.power_w
    return measures


def _append(columns: Columns, row: dict[str, float | None]) -> None:
    _join(columns, {name: [value] for name, value in row.items()})


def _join(columns: Columns, more: Columns) -> None:
    """Add rows to columns; where one side has a measure that the other has not, it is None
    there.
    """
    before, added = len(columns["at"]), len(more["at"])
    for name in columns.keys() | more.keys():
        columns.setdefault(name, [None] * before).extend(more.get(name, [None] * added))
