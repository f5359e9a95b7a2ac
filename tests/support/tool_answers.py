"""Two tools, what a model says when it calls them, and whether one of the engine's grammars takes
it.
"""

import pytest

# The engine's grammars. It brings torch, which `make light` leaves out.
xgrammar = pytest.importorskip(
    "xgrammar", reason="xgrammar is not installed: it needs the full set-up, `make test`"
)

CITIES = {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}, "required": ["city"]}
CITIES |= {"$defs": {"City": {"enum": ["Oslo", "Rome"]}}}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": CITIES}},
    {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
    },
]
LISTED = xgrammar.TokenizerInfo([*map(chr, range(32, 127)), "\n", "</s>"], stop_token_ids=[96])


def accepts(tag: str, text: str) -> bool:
    """Whether the whole of ``text`` is an answer under the structural tag."""
    compiled = xgrammar.GrammarCompiler(LISTED).compile_structural_tag(tag)
    matcher = xgrammar.GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.accept_token(96)


def weather(city: str, key: str = "arguments") -> str:
    return f'{{"name": "get_weather", "{key}": {{"city": "{city}"}}}}'
