"""A rank that exports a model holds no further copy of its weights, and what it leaves is the model
to the bit.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.training.models.export import spilled
from support.loading_memory import export_peak
from support.rank_probe import in_a_rank
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig


@pytest.mark.engine
@pytest.mark.parametrize(
    "options", [{}, {"lora_rank": 4}, {"zero_stage": 3}], ids=["all weights", "adapters", "parts"]
)
def test_an_export_takes_a_few_weights_of_memory_and_not_all(
    tmp_path: Path, options: dict[str, int]
) -> None:
    model, exported = tmp_path / "model", tmp_path / "exported"
    tiny_model_make(model, hidden=1024, intermediate=4096, layers=5)
    config = SessionConfig(max_context_length=128, max_tokens=64, **options)
    peak_bytes = in_a_rank(export_peak, str(model), config, exported)
    # An adapter is added to a weight by way of four more of its size: of 17 MB each, in a model of
    # 250.
    assert peak_bytes < (exported / "model.safetensors").stat().st_size / 2
    weights = load_file(exported / "model.safetensors")
    for name, tensor in load_file(model / "model.safetensors").items():
        assert torch.equal(weights[name], tensor), name
    assert not list(exported.glob(".weights-*"))


def test_what_is_spilled_to_a_disk_is_each_tensor_and_leaves_no_file(tmp_path: Path) -> None:
    tensors = {
        "integers": torch.arange(7), "float32": torch.randn(3, 5), "a number": torch.tensor(1.5),
        "another order in memory": torch.randn(4, 6).bfloat16().t(), "nothing": torch.empty(0, 3),
    }  # fmt: skip
    copies = spilled(tensors.items(), tmp_path)
    assert copies.keys() == tensors.keys() and list(tmp_path.iterdir()) == []
    for name, copy in copies.items():
        assert torch.equal(copy, tensors[name]) and copy.dtype == tensors[name].dtype, name
        assert copy.is_contiguous()
