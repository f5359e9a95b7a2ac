"""Bounds what a grammar of JSON leaves open: blanks in a row, and the digits of a number.

A model that is sampled under a schema may write blanks or digits until ``max_tokens``: nothing in
the grammar ends them. So each schema is compiled with at most 8 blanks in a row, and with numbers
of at most 18 digits before the point, 17 behind it and two in an exponent: more than a double
holds. Text is bounded by the schema's own ``maxLength``.

It is installed wherever vLLM compiles: in the core's process, in the trial's, and where masks are
recorded.
"""

import json
from typing import Any

MAX_BLANKS, MAX_DIGITS = 8, 17  # of digits beside the first
# xgrammar's rules of numbers (0.2), as it writes a grammar out.
NUMBERS = {
    "basic_integer ::=": [("[0-9]*", f"[0-9]{{0, {MAX_DIGITS}}}")],
    "basic_number_2 ::=": [("[0-9]*", f"[0-9]{{0, {MAX_DIGITS}}}")],
    "basic_number_3 ::=": [("{1, -1}", f"{{1, {MAX_DIGITS}}}")],
    "basic_number_5 ::=": [("{1, -1}", "{1, 2}")],
}


def bounds_install() -> None:
    """Bound every grammar that vLLM compiles in this process from now on."""
    from vllm.v1.structured_output import backend_xgrammar
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind

    backend: Any = backend_xgrammar.XgrammarBackend
    if hasattr(backend, "compile_unbounded"):
        return
    backend.compile_unbounded = backend.compile_grammar

    def compile_grammar(
        self: Any, request_type: Any, grammar_spec: str, stop_token_ids: Any = None
    ) -> Any:
        if request_type in (Kind.JSON, Kind.JSON_OBJECT):
            schema = json.loads(grammar_spec) if request_type == Kind.JSON else {"type": "object"}
            form = {"type": "json_schema", "json_schema": schema}
            request_type, grammar_spec = Kind.STRUCTURAL_TAG, _tag(bounded(form))
        elif request_type == Kind.STRUCTURAL_TAG and "format" in (tag := json.loads(grammar_spec)):
            grammar_spec = _tag(bounded(tag["format"]))
        return self.compile_unbounded(request_type, grammar_spec, stop_token_ids)

    backend.compile_grammar = compile_grammar


def bounded(form: Any) -> Any:
    """A structural tag's format with bounds in each schema of it."""
    if isinstance(form, list):
        return [bounded(part) for part in form]
    if not isinstance(form, dict):
        return form
    if form.get("type") != "json_schema":
        return {name: bounded(part) for name, part in form.items()}
    if form.keys() - {"type", "json_schema"}:  # another style of writing, which has its own numbers
        return {"max_whitespace_cnt": MAX_BLANKS} | form
    return {"type": "grammar", "grammar": schema_grammar(form["json_schema"])}


def schema_grammar(schema: Any) -> str:
    """The bounded grammar of JSON of ``schema``, in xgrammar's EBNF."""
    from xgrammar import Grammar

    written = str(Grammar.from_json_schema(json.dumps(schema), max_whitespace_cnt=MAX_BLANKS))
    return "\n".join(map(_bounded_rule, written.splitlines()))


def _bounded_rule(rule: str) -> str:
    for begin, changes in NUMBERS.items():
        if rule.startswith(begin):
            for old, new in changes:
                rule = rule.replace(old, new)
    return rule


def _tag(form: Any) -> str:
    return json.dumps({"type": "structural_tag", "format": form})
