"""Which Tinker sessions a runtime, which several of a project share, has something of."""

from typing import Annotated

from pydantic import Field

from ..base import Request, Response

MAX_CLIENTS = 500  # of one request


class ClientsServed(Request):
    """``POST /v1/runtime/tinker-clients``: the Tinker sessions whose models or samplers a runtime
    has.
    """

    clients: list[Annotated[str, Field(max_length=60)]] = Field(max_length=MAX_CLIENTS)


class ClientsOver(Response):
    """Which of them are over: their models and samplers go."""

    over: list[str]
