"""A config.json says to transformers 4 what it says to transformers 5."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.weights.older_keys import older_keys_add, with_older_keys

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"rope_theta": 500000.0, "rope_type": "default"}, {"rope_theta": 500000.0}),
    ({"rope_theta": 500000.0, **LLAMA3}, {"rope_theta": 500000.0, "rope_scaling": LLAMA3}),
    (
        {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5},
        {"rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ),
    (
        {
            "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        },
        {
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
]


@pytest.mark.parametrize(("rope", "older"), CASES)
def test_theta_and_type_stand_under_the_keys_of_both_versions(
    rope: dict[str, Any], older: dict[str, Any]
) -> None:
    config = {"model_type": "x", "dtype": "bfloat16", "rope_parameters": rope}
    found = with_older_keys(config)
    assert found == config | {"torch_dtype": "bfloat16"} | older
    assert with_older_keys(found) == found
    assert with_older_keys({"text_config": config})["text_config"] == found, "of each part"
    assert with_older_keys(config | {"rope_theta": 7})["rope_theta"] == 7, "what is there stands"


@pytest.mark.parametrize("family", ["LlamaConfig", "Gemma3TextConfig", "Qwen3Config"])
def test_the_newer_version_reads_the_same_from_both(tmp_path: Path, family: str) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="it needs the full set-up, `make test`"
    )
    ropes = {
        "LlamaConfig": CASES[1][0],
        "Gemma3TextConfig": CASES[3][0],
        "Qwen3Config": CASES[0][0],
    }
    config = getattr(transformers, family)(rope_parameters=dict(ropes[family]), dtype="bfloat16")
    config.save_pretrained(tmp_path)
    before = transformers.AutoConfig.from_pretrained(tmp_path)
    older_keys_add(tmp_path)
    after = transformers.AutoConfig.from_pretrained(tmp_path)
    assert "rope_theta" in json.loads((tmp_path / "config.json").read_text())
    assert (after.rope_parameters, after.dtype) == (before.rope_parameters, before.dtype)
