"""The two kinds of message: requests are checked strictly, responses may gain fields."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator


class Request(BaseModel):
    """A message to a server. An unknown field is refused, so that no option is ever silently
    ignored.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    # type checkers know the fields; an __init__ of our own would change how pydantic validates
    if not TYPE_CHECKING:

        def __new__(cls, *values: Any, **fields: Any) -> "Request":
            """Raises TypeError with the names of the fields for what is given without one."""
            if values:
                first, others = next(iter(cls.model_fields)), ", ".join(list(cls.model_fields)[1:])
                raise TypeError(
                    f"{cls.__name__} takes its fields by name: "
                    f"{cls.__name__}({first}={values[0]!r:.80})."
                    + (f" Its other fields are {others}." if others else "")
                )
            return super().__new__(cls)


class Changes(Request):
    """A request to change a row: at least one field is given, and what is given has a value."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    @field_validator("*")
    @classmethod
    def _value_check(cls, value: Any) -> Any:
        if value is None:  # the default is not checked: only one that is given
            raise ValueError("must have a value; leave it out to keep what is there")
        return value

    @model_validator(mode="after")
    def _change_check(self) -> "Changes":
        if not self.model_fields_set:
            raise ValueError("names nothing to change")
        return self


class Response(BaseModel):
    """A message from a server. Unknown fields are ignored, so that an old client survives a new
    server.

    A server always sends every field, so the OpenAPI document calls those with a default required
    too.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, json_schema_serialization_defaults_required=True
    )
