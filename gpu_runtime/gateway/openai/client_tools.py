"""Tools of the Responses dialect that the client runs and that have items of their own: to the model
they are functions.

``local_shell``: OpenAI's guide "Local shell". ``tool_search`` with ``execution: "client"``: its
guide "Tool search". What a search finds is text to the model, which may call it from then on; one
that the server would run has nothing to find, because the model is shown every tool.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from gpu_runtime.journal.call_ids import with_prefix
from gpu_runtime.rendering.messages import Strict

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
