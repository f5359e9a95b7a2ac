"""Tools as a chat request describes them, and what it lets the model do with them."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpu_runtime.generation.engine_options import StrictOptions
from gpu_runtime.rendering.custom_tools import as_function
from gpu_runtime.rendering.messages import normal_tool

NAME_LETTERS = 128  # at most, as Anthropic's have; OpenAI's 64
ToolName = Annotated[str, Field(min_length=1, max_length=NAME_LETTERS, pattern="^[a-zA-Z0-9_.-]+$")]


class Function(StrictOptions):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(StrictOptions):
    """A function, or a custom tool as the function that it is to the model."""

    type: Literal["function", "custom"]
    function: Function

    @model_validator(mode="before")
    @classmethod
    def _custom_is_a_function(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("type") != "custom":
            return value
        return {n: v for n, v in value.items() if n != "custom"} | {
            "function": as_function(value.get("custom"))
        }

    def normal(self) -> dict[str, Any]:
        """The form that templates read."""
        return normal_tool(self.function.model_dump())


class NamedFunction(StrictOptions):
    name: str


class NamedTool(StrictOptions):
    type: Literal["function", "custom"]
    function: NamedFunction

    @model_validator(mode="before")
    @classmethod
    def _custom_is_a_function(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("type") != "custom":
            return value
        return {n: v for n, v in value.items() if n != "custom"} | {"function": value.get("custom")}


class ToolSubset(StrictOptions):
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedTools(StrictOptions):
    """All tools are described to the model, and these alone can be called."""

    type: Literal["allowed_tools"]
    allowed_tools: ToolSubset
