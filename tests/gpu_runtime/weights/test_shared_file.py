"""The file between trainer and engine: ordinary safetensors, in the given order, rewritten where it
lies.
"""

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.weights.shared_file import NAME, WeightFile, tensors_map

SHAPES = {"z.weight": (3, 5), "a.bias": (7,), "m.weight": (2, 2)}


def values(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_reader_of_safetensors_reads_it(tmp_path, dtype):
    file = WeightFile(tmp_path, SHAPES, dtype)
    for name, tensor in values(1).items():
        file.write(name, tensor)
    read = load_file(tmp_path / NAME)
    assert {name: tensor.dtype for name, tensor in read.items()} == dict.fromkeys(SHAPES, dtype)
    assert all(torch.equal(read[name], tensor.to(dtype)) for name, tensor in values(1).items())


def test_a_reader_that_has_mapped_it_sees_the_next_step_without_mapping_again(tmp_path):
    file = WeightFile(tmp_path, SHAPES, torch.float32)
    mapped = tensors_map(tmp_path / NAME)
    for seed in (1, 2):
        for name, tensor in values(seed).items():
            file.write(name, tensor)
        assert all(torch.equal(mapped[name], tensor) for name, tensor in values(seed).items())


def test_neighbours_of_the_order_are_neighbours_in_memory(tmp_path):
    WeightFile(tmp_path, SHAPES, torch.float32)
    mapped = list(tensors_map(tmp_path / NAME).values())
    assert mapped[0].data_ptr() % 4 == 0
    for before, after in zip(mapped, mapped[1:], strict=False):
        assert before.data_ptr() + before.nbytes == after.data_ptr()


def test_a_tensor_of_another_shape_is_refused(tmp_path):
    file = WeightFile(tmp_path, SHAPES, torch.float32)
    with pytest.raises(RuntimeError, match="shape"):
        file.write("a.bias", torch.zeros(1, 7))  # copying would broadcast it silently


def test_a_new_file_leaves_the_old_one_to_the_processes_that_map_it(tmp_path):
    old = WeightFile(tmp_path, SHAPES, torch.float32)
    old.write("a.bias", torch.ones(7))
    mapped = tensors_map(tmp_path / NAME)
    WeightFile(tmp_path, SHAPES, torch.float32).write("a.bias", torch.zeros(7))
    assert torch.equal(mapped["a.bias"], torch.ones(7))
