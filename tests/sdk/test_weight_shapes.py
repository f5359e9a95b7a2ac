"""A folder's weights are counted once, whatever else lies in it."""

import json
from pathlib import Path

from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.training.models.quantised import weight_shapes, weights_count


def test_the_same_weights_in_another_form_and_adapters_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"layers.0.weight": [3, 4]}))
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors_bytes({"layers.0.w": [3, 4]}))
    (tmp_path / "adapter_model.safetensors").write_bytes(
        safetensors_bytes({"lora_A.weight": [2, 4]})
    )
    assert (weights_count(tmp_path), list(weight_shapes(tmp_path))) == (12, ["layers.0.weight"])


def test_an_index_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "part-1.safetensors").write_bytes(safetensors_bytes({"a": [2]}))
    (tmp_path / "part-2.safetensors").write_bytes(safetensors_bytes({"b": [3]}))
    (tmp_path / "old.safetensors").write_bytes(safetensors_bytes({"c": [100]}))
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weights_count(tmp_path) == 5
