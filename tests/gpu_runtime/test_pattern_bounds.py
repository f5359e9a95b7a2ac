"""Patterns that a grammar is made of in reasonable time are told from those that stall the
engine.
"""

import pytest

from gpu_runtime.generation.schemas import MAX_NESTED, nested_repeats

# With xgrammar 0.2.8 and the bundled model's tokenizer: under three seconds of a core each, or its
# own refusal.
MADE = [
    r"^[a-z]{1,500}$",
    r"^(\d{1,3}\.){3}\d{1,3}$",
    r"^([a-z]{1,10}){1,10}$",
    r"^([a-z]{1,10}){10}$",
    r"^(([a-z]{1,3}){1,4}){1,4}$",
    r"^([a-z]{1,10}-){1,100}$",
    r"^([a-z]{1,20}\n){1,100}$",
    r"^(x[a-z]{1,10}){1,100}$",
    r"^([a-z]+){1,100}$",
    r"^(a|b|[a-z]{3}){50}$",
    r"^(([a-z]{3}){10}){10}$",
    r"^([A-Za-z ]{1,200}){0,1}$",
    r"^\{\"a\{1,9\}\"(, [{1,9}]{2,5}){1,50}\}$",
    "(((",
    ")))",
    "[",
    "{9}{9}{9}",
]
# No end was seen within twelve seconds of a core.
STALLED = [
    r"^([a-z]{1,10}){1,100}$",
    r"^([a-z]{1,20}){1,20}$",
    r"^(?:[a-z]{1,100}){1,100}$",
    r"^(?<word>[a-z]{1,50}){1,20}$",
    r"^(([a-z]{1,10}){1,10}){1,10}$",
    r"^([a-z]{1,10}[0-9]?){1,20}$",
    r"^([a-z]{1,10}-?){1,20}$",
    r"^([a-z]{1,20}|-[a-z]{1,3}){1,20}$",
    r"^([a-z]{1,20}){20,}$",
]


@pytest.mark.parametrize("pattern", MADE)
def test_a_pattern_whose_grammar_is_made_is_taken(pattern: str) -> None:
    assert nested_repeats(pattern) <= MAX_NESTED


@pytest.mark.parametrize("pattern", STALLED)
def test_a_pattern_that_repeats_what_repeats_without_an_end_between_is_too_large(
    pattern: str,
) -> None:
    assert nested_repeats(pattern) > MAX_NESTED


def test_a_pattern_is_read_once_from_left_to_right() -> None:
    assert nested_repeats("([a-z]{1,3}" * 20_000) == 1
    assert nested_repeats("[a-z]{9999999999999999999999,}" * 1000) == 1
