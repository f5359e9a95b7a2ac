"""Samples of the machines that runtimes have: written in chunks of columns, read put together to points."""

import time
from typing import Any

from console.live.metric_columns import buckets, column
from console.live.models import ResourceChunk
from tinkerscript.wire.reading.resources import ResourceColumns, ResourceSample

CHUNK_SAMPLES = 60
MIN_BETWEEN_S = 5.0  # a runtime that samples more often than it should is not written more often
CONSTANT = {"cores", "memory_total_bytes", "disk_total_bytes", "gpus"}  # read from the latest sample

Columns = dict[str, list[float | None]]


def is_due(*, session_id: str) -> bool:
    """Whether the last sample of the session is old enough for another."""
    chunk = _last(session_id)
    return chunk is None or time.time() - chunk.columns["at"][-1] >= MIN_BETWEEN_S


def resources_record(*, session_id: str, sample: ResourceSample, store_bytes: int) -> None:
    """Add one sample. The caller holds the session's row, so that no other writes to it meanwhile."""
    measures = _measures(sample) | {"store_bytes": store_bytes}
    chunk = _last(session_id)
    if chunk is None or len(chunk.columns["at"]) >= CHUNK_SAMPLES:
        chunk = ResourceChunk(session_id=session_id, columns={"at": []})
    _append(chunk.columns, {"at": time.time(), **measures})
    chunk.latest = sample.model_dump(mode="json")
    chunk.save()


def resource_columns(*, session_id: str, created_at: float, points: int) -> ResourceColumns:
    """Every sample of the session as at most ``points`` points. ``created_at`` is the Unix time that x begins at.

    The caller has checked that the session is the reader's (console.sessions.selectors.session_get).
    """
    chunks = list(ResourceChunk.objects.filter(session_id=session_id).order_by("id"))
    every: Columns = {"at": []}
    for chunk in chunks:
        _join(every, chunk.columns)
    at = every.pop("at")
    stretches = buckets(len(at), points) if at else []
    return ResourceColumns(
        x=[(at[stretch.stop - 1] or 0.0) - created_at for stretch in stretches],
        columns={name: column(values, stretches) for name, values in sorted(every.items())},
        latest=ResourceSample.model_validate(chunks[-1].latest) if chunks else None,
        samples_in_all=len(at),
    )


def _last(session_id: str) -> ResourceChunk | None:
    return ResourceChunk.objects.filter(session_id=session_id).order_by("-id").first()


def _measures(sample: ResourceSample) -> dict[str, float | None]:
    """What is drawn of a sample, by the name of its column."""
    measures: dict[str, Any] = {
        name: value for name, value in sample.model_dump(mode="json").items() if name not in CONSTANT
    }
    for number, gpu in enumerate(sample.gpus):
        measures[f"gpu{number}_busy"] = gpu.busy
        measures[f"gpu{number}_memory_bytes"] = gpu.memory_bytes
        measures[f"gpu{number}_power_w"] = gpu.power_w
    return measures


def _append(columns: Columns, row: dict[str, float | None]) -> None:
    _join(columns, {name: [value] for name, value in row.items()})


def _join(columns: Columns, more: Columns) -> None:
    """Add rows to columns; where one side has a measure that the other has not, it is None there."""
    before, added = len(columns["at"]), len(more["at"])
    for name in columns.keys() | more.keys():
        columns.setdefault(name, [None] * before).extend(more.get(name, [None] * added))
