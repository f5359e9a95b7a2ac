"""Tools of the Responses dialect: functions and custom tools, alone or in namespaces, and those
that the client runs and that have items of their own. To the model all are functions.

A function of a namespace is one whose name begins with the namespace's, for no template has groups.
Its calls are sent with both names apart, as the dialect has them (Codex 0.171.0 finds its handler
by the two).

``local_shell``: OpenAI's guide "Local shell". ``tool_search`` with ``execution: "client"``: its
guide "Tool search". What a search finds is text to the model, which may call it from then on; one
that the server would run has nothing to find, because the model is shown every tool.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.generation.requests import NAME_LETTERS, ToolName
from gpu_runtime.journal.records import with_prefix
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.messages import Strict

BETWEEN = "__"  # the names of a namespace and of a function in it
NAMESPACES = "namespaces"  # noted with a call: the two names of each function of one
CLIENT_TOOLS = "client tools"  # noted with a call that has any: their names
SHELL, SEARCH = "local_shell", "tool_search"
SHELL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments.",
        },
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["command"],
    "additionalProperties": False,
}
SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}


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


class LocalShellTool(Strict):
    type: Literal["local_shell"]

    @property
    def function(self) -> dict[str, Any]:
        """What the model is shown."""
        told = "Runs a command in the shell of the user's machine and returns its output."
        return {"name": SHELL, "description": told, "parameters": SHELL_SCHEMA, "strict": True}


class ToolSearchTool(Strict):
    type: Literal["tool_search"]
    execution: Literal["client"]
    description: str | None = None
    parameters: dict[str, Any] | None = None

    @property
    def function(self) -> dict[str, Any]:
        """What the model is shown."""
        told = self.description or "Searches for more tools, which can be called afterwards."
        return {
            "name": SEARCH,
            "description": told,
            "parameters": self.parameters or SEARCH_SCHEMA,
        }


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


class ClientCall(Strict):
    """An item with a call's id; some clients send that as the item's own."""

    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    call_id: str = Field(min_length=1, max_length=256)

    @model_validator(mode="before")
    @classmethod
    def _id_may_be_the_calls(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("call_id") is None and value.get("id"):
            return value | {"call_id": value["id"]}
        return value


class _ShellAction(Strict):
    type: Literal["exec"] = "exec"
    command: list[str]
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class ShellCallItem(ClientCall):
    type: Literal["local_shell_call"]
    action: _ShellAction

    @property
    def function(self) -> dict[str, Any]:
        """The call as the model wrote it."""
        given = self.action.model_dump(exclude={"type"}, exclude_none=True)
        return {"name": SHELL, "arguments": {k: v for k, v in given.items() if v != {}}}


class SearchItem(ClientCall):
    """Of a search that the client runs."""

    execution: Literal["client"] = "client"


class SearchCallItem(SearchItem):
    type: Literal["tool_search_call"]
    arguments: dict[str, Any] | str

    @property
    def function(self) -> dict[str, Any]:
        """The call as the model wrote it."""
        return {"name": SEARCH, "arguments": self.arguments}


class ShellOutputItem(ClientCall):
    type: Literal["local_shell_call_output"]
    output: str


def client_item(call_id: str, index: int, call: Mapping[str, Any]) -> dict[str, Any]:
    """Call number ``index`` of an answer, of one of these tools."""
    function = call["function"]
    try:
        given = json.loads(function["arguments"])
    except ValueError:  # cut short
        given = {}
    given = given if isinstance(given, dict) else {}
    is_shell = function["name"] == SHELL
    head = {
        "id": f"{with_prefix('lsh_' if is_shell else 'tsc_', call_id)}_{index}",
        "type": f"{function['name']}_call",
        "status": "completed",
        "call_id": call["id"],
    }
    if not is_shell:
        return head | {"execution": "client", "arguments": given}
    command = given.get("command")
    words = command if isinstance(command, list) else [command] if command else []
    action = {"type": "exec", "command": [str(word) for word in words], "env": {}}
    told = {name: given[name] for name in ("working_directory", "timeout_ms") if name in given}
    return head | {"action": action | told}
