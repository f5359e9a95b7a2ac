"""What a runtime uses of its machine: one sample in ten seconds, read back as columns."""

from pydantic import Field, FiniteFloat

from ..base import Request, Response

MAX_BYTES = 2**53 - 1
MAX_GPUS = 64


class GpuSample(Request):
    """One GPU that the runtime sees, as its driver reports it (NVML). None: this device does not
    report it.
    """

    name: str = Field(max_length=100)
    busy: FiniteFloat | None = Field(
        None, ge=0, le=1, description="Share of the time in which a kernel ran."
    )
    memory_bytes: int | None = Field(
        None, ge=0, le=MAX_BYTES, description="Used, by whichever process."
    )
    memory_total_bytes: int | None = Field(None, ge=0, le=MAX_BYTES)
    power_w: FiniteFloat | None = Field(None, ge=0, le=1e5)


class ResourceSample(Request):
    """Of the runtime's processes and of the machine, or the part of it that the runtime may use."""

    cpu_cores: FiniteFloat = Field(
        ge=0, le=1e5, description="Cores that its processes kept busy since the last one."
    )
    cores: FiniteFloat = Field(gt=0, le=1e5, description="That it may use.")
    memory_bytes: int = Field(
        ge=0, le=MAX_BYTES, description="Resident; a page that two processes share counts twice."
    )
    memory_used_bytes: int = Field(
        ge=0, le=MAX_BYTES, description="Of memory_total_bytes, by whichever process."
    )
    memory_total_bytes: int = Field(ge=0, le=MAX_BYTES)
    disk_free_bytes: int = Field(ge=0, le=MAX_BYTES, description="Where the runtime's folder is.")
    disk_total_bytes: int = Field(ge=0, le=MAX_BYTES)
    gpus: list[GpuSample] = Field([], max_length=MAX_GPUS)


class ResourceColumn(Response):
    """One measure, an entry per point: the mean of its samples and their extremes.

    None where no sample has it.
    """

    mean: list[float | None]
    low: list[float | None] | None = Field(
        None, description="None where every point is one sample."
    )
    high: list[float | None] | None = None


class ResourceColumns(Response):
    """``x`` is in seconds since the session was created, of the last sample of each point.

    Columns are those of ResourceSample, ``store_bytes`` (what the session has in the object store),
    and of each GPU ``gpu0_busy``, ``gpu0_memory_bytes`` and ``gpu0_power_w``. ``latest`` has what
    does not change: totals and names.

    Kept are all of the last day of samples, and one of each five minutes of the thirty days before
    that.
    """

    x: list[float]
    columns: dict[str, ResourceColumn]
    latest: ResourceSample | None
    samples_in_all: int = Field(description="Kept samples, which the points stand for.")
