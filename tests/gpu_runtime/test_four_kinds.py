"""A model of each kind, by the real engine and the real trainer: they agree with the base weights,
after a hand-over and after five steps, and the trainer's gradient is plain torch's.

Every family is in ``tests/benchmarks/families.py``, with a trainer that is killed.
"""

from pathlib import Path

import pytest
from benchmarks.families import family_try

from support.family_outcomes import outcome_judge

KINDS = {
    "dense": "Qwen3", "experts": "Qwen3-MoE", "hybrid": "Granite 4", "multimodal": "Qwen3-VL",
}  # fmt: skip


@pytest.mark.smoke
@pytest.mark.engine
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)
async def test_a_model_of_each_kind_is_served_as_it_is_trained(tmp_path: Path, name: str) -> None:
    found = outcome_judge(name, outcome := await family_try(name, tmp_path, kills=False))
    assert found.held and found.row.startswith("agree"), outcome
