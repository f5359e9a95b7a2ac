"""Tools of the Responses dialect: functions and custom tools, alone or in namespaces, and those of
client_tools.py.

A function of a namespace is one whose name begins with the namespace's, for no template has groups.
Its calls are sent with both names apart, as the dialect has them (Codex 0.171.0 finds its handler
by the two).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.gateway.openai.client_tools import LocalShellTool, ToolSearchTool
from gpu_runtime.generation.requests import NAME_LETTERS, ToolName
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.messages import Strict

BETWEEN = "__"  # the names of a namespace and of a function in it
NAMESPACES = "namespaces"  # noted with a call: the two names of each function of one


class FunctionTool(Strict):
    type: Literal["function"]
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomTool(Strict):
    type: Literal["custom"]
    name: ToolName
    description: str | None = None
    format: dict[str, Any] | None = None


class NamespaceTool(Strict):
    """A group of tools. The model reads its description before that of each of them."""

    type: Literal["namespace"]
    name: ToolName
    description: str | None = None
    tools: list[Annotated[FunctionTool | CustomTool, Field(discriminator="type")]] = Field(
        min_length=1
    )


Tool = Annotated[
    FunctionTool | CustomTool | NamespaceTool | LocalShellTool | ToolSearchTool,
    Field(discriminator="type"),
]


def flat_name(namespace: str | None, name: str) -> str:
    """The name that the model is shown of a function, of a namespace or of none."""
    return name if namespace is None else f"{namespace}{BETWEEN}{name}"


def functions_of(tools: Sequence[Tool]) -> dict[str, FunctionTool | CustomTool]:
    """Functions and custom tools by the names that the model is shown; those of namespaces stand in
    their places.

    Raises BadRequest for two of one name, and for a name that is too long.
    """
    functions: dict[str, FunctionTool | CustomTool] = {}
    for number, tool in enumerate(tools):
        group = tool if isinstance(tool, NamespaceTool) else None
        for each in _inside(tool):
            name = flat_name(group.name if group else None, each.name)
            if name in functions:
                raise _refused(number, f"two tools have the name {name!r}")
            if (letters := len(name)) > NAME_LETTERS:
                raise _refused(
                    number,
                    f"the name {name!r} has {letters} letters, and {NAME_LETTERS} are the most",
                )
            told = [group.description if group else None, each.description]
            functions[name] = each.model_copy(
                update={"description": "\n".join(filter(None, told)) or None}
            )
    return functions


def tools_place(tools: Sequence[Tool], places: Places) -> None:
    """Add which of ``tools`` each of their ``functions_of`` is."""
    own = [
        f"{place}.tools.{inside}" if isinstance(tool, NamespaceTool) else place
        for number, tool in enumerate(tools)
        for place in [places.own(f"tools.{number}")]
        for inside, _ in enumerate(_inside(tool))
    ]
    for number, place in enumerate(own):
        places.add(f"tools.{number}", place)
        places.add(f"tools.{number}.function", place)


def _inside(tool: Tool) -> Sequence[FunctionTool | CustomTool]:
    if isinstance(tool, NamespaceTool):
        return tool.tools
    if isinstance(tool, LocalShellTool | ToolSearchTool):
        return [FunctionTool(type="function", **tool.function)]
    return [tool]


def _refused(number: int, why: str) -> BadRequest:
    return BadRequest(
        f"tools.{number}: {why}",
        hint="The model reads a namespace's function under both names, with two underscores "
        "between them.",
        param=f"tools.{number}.name",
    )


def names_apart(tools: Sequence[Tool]) -> dict[str, tuple[str, str]]:
    """Namespace and name of each function of a namespace, by the name that the model is shown."""
    groups = [tool for tool in tools if isinstance(tool, NamespaceTool)]
    return {
        flat_name(group.name, tool.name): (group.name, tool.name)
        for group in groups
        for tool in group.tools
    }


def split_name(name: str, apart: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The fields of a call that name its function."""
    if name not in apart:
        return {"name": name}
    namespace, own = apart[name]
    return {"name": own, "namespace": namespace}
