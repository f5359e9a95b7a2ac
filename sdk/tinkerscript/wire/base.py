"""The two kinds of message: requests are checked strictly, responses may gain fields."""

from pydantic import BaseModel, ConfigDict


class Request(BaseModel):
    """A message to a server. An unknown field is refused, so that no option is ever silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Response(BaseModel):
    """A message from a server. Unknown fields are ignored, so that an old client survives a new server.

    A server always sends every field, so the OpenAPI document calls those with a default required too.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, json_schema_serialization_defaults_required=True)
