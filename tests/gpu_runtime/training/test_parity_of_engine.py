"""The real engine and the real trainer agree on every sampled token, before and after every
hand-over.
"""

from pathlib import Path
from typing import Any

import pytest

from support.parity_probe import take_turns

# What vLLM imports warns of its own future.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all weights"),
        pytest.param({"lora_rank": 4}, id="LoRA", marks=pytest.mark.nightly),
    ],
)
async def test_no_log_probability_is_off_before_or_after_any_hand_over(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    found = await take_turns(tmp_path, options)
    assert len(found["gaps"]) == 6 and max(found["gaps"]) < 1e-4
    assert max(found["kls"]) < 5e-9
    assert min(found["moved"]) > 1e-3, "each hand-over brought other weights, or nothing was shown"
