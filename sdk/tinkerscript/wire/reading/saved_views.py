"""Saved views: how the charts of a run are looked at, by name, for everybody in the project."""

from datetime import datetime
from typing import Annotated
from urllib.parse import parse_qsl

from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema

from ..base import Changes, Request, Response

# Of a run's address: the axis, the smoothing, the scale, open groups.
PARTS = ("x", "smooth", "y", "open")


def _address_check(address: str) -> str:
    try:
        parts = (
            parse_qsl(address, strict_parsing=True, max_num_fields=len(PARTS)) if address else []
        )
    except ValueError as error:
        raise ValueError("is no part of an address: write it as x=time&smooth=0.6") from error
    names = [name for name, _ in parts]
    if unknown := sorted(set(names) - set(PARTS)):
        raise ValueError(
            f"has {', '.join(unknown)}, which is no part of a view; its parts are "
            f"{', '.join(PARTS)}"
        )
    if len(set(names)) < len(names):
        raise ValueError("names a part twice")
    return address


ViewName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"\S")]
ViewAddress = Annotated[
    str,
    AfterValidator(_address_check),
    Field(
        max_length=400,
        description="What the address of a run's page has behind its ?: x=time&open=speed.",
    ),
]


class SavedViewCreate(Request):
    """``POST /v1/saved-views``: keep how the charts of a run are looked at."""

    name: ViewName
    address: ViewAddress
    pinned: bool = False


class SavedViewUpdate(Changes):
    """``PATCH /v1/saved-views/{view_id}``: what is given is changed."""

    name: ViewName | SkipJsonSchema[None] = None
    address: ViewAddress | SkipJsonSchema[None] = None
    pinned: bool | SkipJsonSchema[None] = None


class SavedViewView(Response):
    """One view."""

    id: str
    name: str
    address: str
    pinned: bool = Field(description="It stands before the others.")
    created_at: datetime


class SavedViewList(Response):
    """All of the project's: pinned ones first, then by name."""

    items: list[SavedViewView]
