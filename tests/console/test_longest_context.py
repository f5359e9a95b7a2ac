"""A context that the engine's keys and values cannot hold is refused when a session is made, with
the longest.
"""

import pytest

from console.catalogue.memory_estimate import ModelShape, SessionMemory
from console.errors import InvalidRequest
from console.sessions.dry_run import context_check
from tinkerscript.wire.config import SessionConfig

SMOLLM2 = ModelShape(134_515_008, hidden=576, layers=30, token_values=2 * 30 * 3 * 64)


def memory(
    length: int, shape: ModelShape = SMOLLM2, *, on_gpu: bool = False, dtype: str = "auto"
) -> SessionMemory:
    return SessionMemory(
        shape, SessionConfig(max_context_length=length, dtype=dtype), on_gpu=on_gpu
    )


def test_the_longest_that_fits_is_taken_and_one_more_is_refused_with_it() -> None:
    context_check(memory(23_168), 1)
    with pytest.raises(
        InvalidRequest, match="max_context_length is 23169, .* hold 23168 tokens on a CPU"
    ) as refused:
        context_check(memory(23_169), 1)
    assert "to 23168 at most" in refused.value.hint
    assert refused.value.details["fields"][0]["field"] == "config.max_context_length"


def test_halved_numbers_and_further_machines_hold_twice_as_much() -> None:
    assert memory(1024, dtype="bfloat16").longest_on_cpu() == 46_464
    assert memory(1024).longest_on_cpu(2) == 46_464
    context_check(memory(32_768), 2)


def test_what_is_not_known_is_not_refused() -> None:
    for unknown in (ModelShape(7), ModelShape(7, token_values=1 << 20, has_windows=True)):
        context_check(memory(1 << 20, unknown), 1)
    context_check(memory(32_768, on_gpu=True), 1)
