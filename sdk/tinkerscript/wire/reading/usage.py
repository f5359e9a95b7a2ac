"""What a project used, day by day."""

from datetime import date as Date
from enum import StrEnum

from pydantic import Field

from ..base import Response
from ..projects import DevicePrices


class UsageBy(StrEnum):
    """Whose use is told apart."""

    MEMBER = "member"  # who started the session, by hand or by key
    KEY = "key"  # that started it; what was started by hand is one entry
    MODEL = "model"  # the base model


class DayUsage(Response):
    """What one payer used on one day, from midnight to midnight UTC."""

    date: Date
    id: str | None = Field(
        description="Of the member or key, or the name of the model; none: not known, or by hand."
    )
    runtime_s: float
    gpu_s: float
    device_s: float = Field(
        description="The same as gpu_s, with a runtime without GPU as one device."
    )
    cost: float | None = Field(
        None, description="At the prices of today; none: the server has none."
    )


class PeriodUsage(Response):
    """What one payer used in the whole period."""

    id: str | None
    name: str
    runtime_s: float
    gpu_s: float
    device_s: float
    cost: float | None = None
    cap_s: int | None = Field(
        None, description="Of a key: how many device-seconds it may use, ever."
    )
    ever_s: float | None = Field(None, description="Of a key with a cap: how many it used, ever.")


class UsageDays(Response):
    """``GET /v1/usage/days``: a day on which a payer used nothing has no entry."""

    first: Date
    last: Date
    by: UsageBy
    days: list[DayUsage] = Field(description="The earliest day first.")
    payers: list[PeriodUsage] = Field(description="The most used first.")
    prices: DevicePrices | None = Field(None, description="None: no money is shown.")
