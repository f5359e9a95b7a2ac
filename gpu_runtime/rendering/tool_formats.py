"""Tool calls in the text of a model: the formats that are known, and how each is found, parsed and
asked for.

Which one a model uses is read off its chat template, by rendering a call and looking at what it
became.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from gpu_runtime.rendering.calls import gemma
from gpu_runtime.rendering.calls.json_text import load, load_at
from gpu_runtime.rendering.calls.lenient import XML_STARTS, read_hermes, read_llama, read_xml
from gpu_runtime.rendering.calls.pieces import MAX_NAME, ParsedCall, Read, overlap
from gpu_runtime.rendering.calls.schema_types import Schemas, schemas_of
from gpu_runtime.rendering.calls.xml import parse_xml

SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class ToolFormat:
    """``marker`` begins the part of an answer that is not plain text. ``arguments_key`` names a
    call's arguments, or ``arguments_mark`` stands between its name and them, where a call is no
    object; ``id_mark`` and an id that the model writes may stand before it.

    A forced call is asked for by ending the prompt with ``prefill`` and constraining the answer to
    calls. They are sampled with all that the template writes after them, so that the end of the
    turn comes where it stands in the history and a next request goes on with these ids. Calls stand
    within ``list_frame``, several of them ``separator`` apart, or in frames of their own
    ``between`` apart; None means that there is one at most.
    """

    name: str
    marker: str
    parse: Read
    arguments_key: str = "arguments"
    prefill: str = ""
    list_frame: tuple[str, str] = ("", "")
    separator: str | None = None
    between: str | None = None
    at_start: bool = False  # a call can only begin an answer
    single: bool = False  # the template writes one call of a message at most
    short_ids: bool = False  # the template takes call ids of nine letters and digits only
    marker_id: int | None = None  # set where the marker is a special token
    arguments_mark: str = ""
    arguments_mark_id: int | None = None  # set where that is a special token
    id_mark: str = ""
    id_mark_id: int | None = None
    end_id: int | None = None  # set where what ends a call is a special token
    quote: str = ""  # around strings, where that is a mark
    quote_id: int | None = None
    ends_answer: str = ""  # what a model writes after its calls in place of an end of turn
    style: Literal["json", "xml", "gemma"] = "json"  # how arguments are written
    # by which arguments without a type of their own are read
    schemas: Schemas = field(default_factory=dict)
    is_lenient: bool = False  # calls with slips are read as vLLM reads them
    lenient: Read | None = None  # by which rule, where that is another

    def for_tools(self, tools: list[dict[str, Any]]) -> "ToolFormat":
        """The format that reads calls of ``tools`` (in normal form)."""
        if self.style != "xml":
            return self
        schemas = schemas_of(tools)
        parse, lenient = partial(parse_xml, schemas=schemas), partial(read_xml, schemas=schemas)
        return replace(self, schemas=schemas, parse=parse, lenient=lenient)

    @property
    def strict(self) -> "ToolFormat":
        """The format, of which one slip makes an answer text."""
        return replace(self, is_lenient=False)

    @property
    def ends_thoughts(self) -> tuple[str, ...]:
        """The marks that end thoughts which nothing has closed."""
        return (self.marker,) if self.is_lenient and not self.at_start else ()

    @property
    def starts(self) -> tuple[str, ...]:
        """The marks of which one begins the part that is not plain text."""
        return XML_STARTS if self.is_lenient and self.style == "xml" else (self.marker,)

    @property
    def marks(self) -> str:
        """All that may stand around calls and between their parts."""
        return "".join(
            (
                self.marker,
                self.prefill,
                *self.list_frame,
                self.id_mark,
                self.arguments_mark,
                self.quote,
            )
        )

    def read(self, text: str) -> tuple[str, list[ParsedCall]]:
        """The plain text and the calls of an answer. Several calls are text where its template
        could not write them: the history would lack what was answered. So is a name that no message
        can give back.
        """
        content, calls = (self.lenient if self.is_lenient and self.lenient else self.parse)(text)
        is_nameless = any(not 0 < len(call.name) <= MAX_NAME for call in calls)
        return (text, []) if is_nameless or (self.single and len(calls) > 1) else (content, calls)

    def plain_length(self, text: str) -> int:
        """How many characters of ``text``, the answer so far, are plain text whatever comes
        next.
        """
        if self.at_start:
            start = text.lstrip()
            return 0 if not start or start.startswith(self.marker) else len(text)
        end = min((at for mark in self.starts if (at := text.find(mark)) >= 0), default=-1)
        if end < 0:
            end = len(text) - max(overlap(text, mark) for mark in self.starts)
        return len(text[:end].rstrip())

    def first_call_end(self, text: str, since: int = 0) -> int | None:
        """Where the first call in ``text`` ends, its frame included; None while it is not whole, or
        is none. It ends nowhere in the first ``since`` letters.

        Only for formats whose calls stand alone: a list of calls ends after the last of them.
        """
        if self.at_start:
            start = len(text) - len(text.lstrip())
            try:
                _, end = load_at(text, start)
            except (ValueError, RecursionError):
                return None
            return end if self.strict.read(text[:end])[1] else None
        closing = self.list_frame[1].strip()
        begin = text.find(self.marker)
        end = max(begin, since - len(closing) + 1)
        # an argument may hold what ends a call
        while closing and begin >= 0 and (end := text.find(closing, end)) >= 0:
            end += len(closing)
            if self.strict.read(text[:end])[1]:
                return end
        return None

    @property
    def lists_calls(self) -> bool:
        """Whether several calls stand in one list, which no cut after the first of them can
        close.
        """
        return self.separator is not None

    def call_id(self, seed: str) -> str:
        """An id for a call, the same for the same ``seed``."""
        digest = hashlib.sha256(seed.encode()).hexdigest()
        return digest[:9] if self.short_ids else f"call_{digest[:24]}"


def detect(rendered_call: str, tool_name: str) -> ToolFormat | None:
    """The format in which a template wrote a call of ``tool_name``, or None if it is not one of
    those known here.
    """
    if re.search(r"<tool_call>\s*\{\s*\"name\":\s*\"" + re.escape(tool_name), rendered_call):
        return HERMES
    if re.search(
        r"<tool_call>\s*<function=" + re.escape(tool_name) + r">\s*<parameter=", rendered_call
    ):
        return XML
    if re.search(r"<tool_call>\s*\[\s*\{\s*\"name\":\s*\"" + re.escape(tool_name), rendered_call):
        return SMOLLM2
    if re.search(r"<\|tool_call>call:" + re.escape(tool_name) + r"\{\w+:<\|\"\|>", rendered_call):
        return GEMMA
    if found := re.search(
        r"\[TOOL_CALLS\](\s*)\[\s*\{\s*\"name\":\s*\"" + re.escape(tool_name), rendered_call
    ):
        return replace(MISTRAL, list_frame=(found[1] + "[", "]"))
    if f"[TOOL_CALLS]{tool_name}[ARGS]" in rendered_call:
        return MISTRAL_ARGS
    if re.search(
        r"\[TOOL_CALLS\]" + re.escape(tool_name) + r"\[CALL_ID\]\w+\[ARGS\]", rendered_call
    ):
        return MISTRAL_IDS
    if re.search(
        r"\{\s*\"name\":\s*\"" + re.escape(tool_name) + r"\",\s*\"parameters\":", rendered_call
    ):
        return LLAMA3
    return None


def written_in_content(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose calls stand in its content, as ``HERMES`` has them: for templates that leave
    calls out.
    """
    calls = [
        f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
        for call in message.get("tool_calls", [])
    ]
    content = "\n".join(filter(None, [message["content"], *calls]))
    return {name: value for name, value in message.items() if name != "tool_calls"} | {
        "content": content
    }


def _parse_hermes(text: str) -> tuple[str, list[ParsedCall]]:
    """A mark may also be text of an argument: a call's own JSON says where it ends."""
    before, marker, _ = text.partition("<tool_call>")
    calls: list[ParsedCall | None] = []
    position = len(before) if marker else -1
    while position >= 0:
        value, end = _value_at(text, position + len(marker), "</tool_call>")
        calls.append(_call(value, "arguments"))
        position = text.find(marker, end)
    return _whole(text, before, calls)


def _parse_smollm2(text: str) -> tuple[str, list[ParsedCall]]:
    before, marker, _ = text.partition("<tool_call>")
    values = _value_at(text, len(before) + len(marker), "</tool_call>")[0] if marker else []
    if isinstance(values, dict):
        values = [values]  # one call outside of a list: what is meant is plain
    return _whole(
        text,
        before,
        [_call(value, "arguments") for value in values] if isinstance(values, list) else [None],
    )


def _parse_mistral(text: str) -> tuple[str, list[ParsedCall]]:
    before, marker, after = text.partition("[TOOL_CALLS]")
    values = _load(after) if marker else []
    return _whole(
        text,
        before,
        [_call(value, "arguments") for value in values] if isinstance(values, list) else [None],
    )


def _parse_mistral_args(text: str) -> tuple[str, list[ParsedCall]]:
    """A mark may also be text of an argument: the arguments' own JSON says where they end."""
    before, marker, rest = text.partition("[TOOL_CALLS]")
    calls: list[ParsedCall | None] = []
    while marker:
        head, _, rest = rest.partition("[ARGS]")
        name, _, call_id = head.partition("[CALL_ID]")
        try:
            arguments, end = load_at(rest, 0)
        except (ValueError, RecursionError):
            return text, []
        call = _call({"name": name.strip(), "arguments": arguments}, "arguments")
        calls.append(replace(call, id=new_id(call_id, calls)) if call else None)
        rest = rest[end:].strip()
        marker = "[TOOL_CALLS]" if rest else ""
        if rest and not rest.startswith(marker):
            return text, []
        rest = rest.removeprefix(marker)
    return _whole(text, before, calls)


def _parse_llama3(text: str) -> tuple[str, list[ParsedCall]]:
    rest, calls = text.strip(), []
    while rest.startswith("{"):
        try:
            value, end = load_at(rest, 0)
        except (ValueError, RecursionError):
            break
        calls.append(_call(value, "parameters") if "parameters" in value else None)
        rest = rest[end:].lstrip().removeprefix(";").lstrip()
    return _whole(text, "", [None] if rest else calls)


def new_id(call_id: str, calls: Iterable[ParsedCall | None]) -> str | None:
    """An id that the model gave a call after ``calls``, if a client can tell calls apart by it."""
    known = {call.id for call in calls if call is not None}
    return call_id if SHORT_ID.fullmatch(call_id) and call_id not in known else None


def _whole(text: str, before: str, calls: list[ParsedCall | None]) -> tuple[str, list[ParsedCall]]:
    """Either every call of an answer is well formed or the answer is plain text."""
    good = [call for call in calls if call is not None]
    return (before.rstrip(), good) if good and len(good) == len(calls) else (text, [])


def _load(text: str) -> Any:
    try:
        return load(text)
    except (ValueError, RecursionError):
        return None


def _value_at(text: str, position: int, closing: str) -> tuple[Any, int]:
    """The JSON at ``position`` and where it ends: before ``closing``, which the last may lack. Else
    None.
    """
    try:
        value, end = load_at(text, _after_space(text, position))
    except (ValueError, RecursionError):
        return None, len(text)
    end = _after_space(text, end)
    return (value if end == len(text) or text.startswith(closing, end) else None), end


def _after_space(text: str, position: int) -> int:
    found = SPACE.match(text, position)
    return found.end() if found else position


def _call(value: Any, arguments_key: str) -> ParsedCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    arguments = value.get(arguments_key, {})
    return ParsedCall(value["name"], json.dumps(arguments)) if isinstance(arguments, dict) else None


HERMES = ToolFormat(
    "hermes",
    "<tool_call>",
    _parse_hermes,
    prefill="<tool_call>\n",
    list_frame=("", "\n</tool_call>"),
    between="\n",
    lenient=read_hermes,
)
XML = replace(
    HERMES,
    name="xml",
    parse=partial(parse_xml, schemas={}),
    lenient=partial(read_xml, schemas={}),
    style="xml",
)
GEMMA = ToolFormat(
    "gemma",
    gemma.MARKER,
    gemma.parse_gemma,
    prefill=gemma.MARKER,
    list_frame=("", gemma.END),
    between="",
    quote=gemma.QUOTE,
    ends_answer=gemma.ENDS_ANSWER,
    style="gemma",
)
# Source: the model card of SmolLM2-1.7B-Instruct, "Function calling".
SMOLLM2 = ToolFormat(
    "smollm2",
    "<tool_call>",
    _parse_smollm2,
    prefill="<tool_call>",
    list_frame=("[", "]</tool_call>"),
    separator=", ",
)
MISTRAL = ToolFormat(
    "mistral",
    "[TOOL_CALLS]",
    _parse_mistral,
    prefill="[TOOL_CALLS]",
    separator=", ",
    short_ids=True,
)
# Of tokenizer version 13. Source: mistral-common's templates.
MISTRAL_ARGS = ToolFormat(
    "mistral_args",
    "[TOOL_CALLS]",
    _parse_mistral_args,
    prefill="[TOOL_CALLS]",
    between="",
    short_ids=True,
    arguments_mark="[ARGS]",
)
# Of tokenizer version 11, where the model names its calls. Source: as above.
MISTRAL_IDS = replace(MISTRAL_ARGS, name="mistral_ids", id_mark="[CALL_ID]")
LLAMA3 = ToolFormat(
    "llama3", "{", _parse_llama3, arguments_key="parameters", at_start=True, lenient=read_llama
)
