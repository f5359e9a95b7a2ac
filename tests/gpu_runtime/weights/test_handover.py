"""After a hand-over the engine computes with the new weights, all of them, and exactly."""

from pathlib import Path

import pytest

from support.handover_probe import hand_over_twice

# What vLLM imports warns of its own future.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


# Llama's shape is held by training/test_parity_of_engine.py, before and after three hand-overs.
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param("qwen2", "repacked", marks=pytest.mark.nightly),
        ("qwen3", "repacked"),
        ("mistral", "reloaded"),
    ],
)
async def test_every_hand_over_changes_every_weight_and_no_log_probability_is_off(
    tmp_path: Path, kind: str, way: str
) -> None:
    ways, gaps = await hand_over_twice(kind, tmp_path)
    assert ways == [way, way]
    assert max(gaps) < 1e-4
