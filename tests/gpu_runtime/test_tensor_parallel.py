"""Over how many devices an engine spreads: made-up devices, by hand; what cannot fit is refused with the numbers."""

import json
from pathlib import Path

import pytest

from gpu_runtime.engine import tensor_parallel
from gpu_runtime.engine.tensor_parallel import (
    GIB,
    WORK_BYTES,
    EngineNeeds,
    engine_needs,
    tensor_parallel_choose,
    tensor_parallel_plan,
)
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import Placement
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.reading.resources import GpuSample

# Qwen2.5: shapes from the config.json of each. 32k tokens of context, bfloat16.
SMALL = EngineNeeds(int(3.1e9), 32_768 * 28_672, heads=12, key_heads=2, intermediate=8960)  # 1.5B
MIDDLE = EngineNeeds(int(15.2e9), 32_768 * 57_344, heads=28, key_heads=4, intermediate=18_944)  # 7B
LARGE = EngineNeeds(int(145e9), 32_768 * 327_680, heads=64, key_heads=8, intermediate=29_568)  # 72B


def choose(needs: EngineNeeds, memory_gib: float | None, devices: int = 8, *, shared: bool = False) -> int:
    memory = None if memory_gib is None else int(memory_gib * GIB)
    return tensor_parallel_choose(needs, devices=devices, memory_bytes=memory, shared=shared)


@pytest.mark.parametrize(
    ("needs", "memory_gib", "count"),
    [(SMALL, 80, 1), (MIDDLE, 80, 1), (LARGE, 80, 4), (LARGE, 141, 2), (MIDDLE, 16, 2), (SMALL, 8, 1)],
)
def test_the_fewest_devices_that_the_model_fits(needs: EngineNeeds, memory_gib: float, count: int) -> None:
    assert choose(needs, memory_gib) == count


def test_devices_that_the_trainer_uses_too_hold_less() -> None:
    assert (choose(MIDDLE, 24), choose(MIDDLE, 24, shared=True)) == (1, 2)


def test_a_context_may_need_a_device_more_than_the_weights() -> None:
    long = EngineNeeds(MIDDLE.weight_bytes, 8 * MIDDLE.cache_bytes, heads=28, key_heads=4, intermediate=18_944)
    assert (choose(MIDDLE, 24), choose(long, 24)) == (1, 2)


def test_only_what_divides_the_layers_is_chosen() -> None:
    assert choose(MIDDLE, 6) == 4, "28 heads are not shared out among 8"
    with pytest.raises(PlacementImpossible, match=r"are 14\.2 GiB, 3\.5 GiB on each of 4 GPUs.*1\.8 of 2\.0 GiB"):
        choose(MIDDLE, 2)


def test_what_fits_on_no_number_of_its_devices_is_refused_with_the_numbers() -> None:
    with pytest.raises(PlacementImpossible, match=r"135\.0 GiB on each of 1 GPUs.*73\.6 of 80\.0 GiB; it has 1,"):
        choose(LARGE, 80, devices=1)


def test_weights_that_fit_with_little_beside_them_are_left_to_vllm_to_measure() -> None:
    tight = (MIDDLE.weight_bytes + WORK_BYTES / 2) / GIB / 0.92
    assert choose(MIDDLE, tight, devices=1) == 1


def test_a_size_or_a_memory_that_is_not_known_changes_nothing() -> None:
    assert choose(EngineNeeds(0), 80) == choose(LARGE, None) == 1


def folder_make(folder: Path, **fields: object) -> Path:
    config = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64, "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(config | fields))
    (folder / "model.safetensors").write_bytes(safetensors_bytes({"a": [4, 5]}))
    return folder


def test_needs_are_read_from_the_models_folder(tmp_path: Path) -> None:
    folder = folder_make(tmp_path, intermediate_size=96)
    config = SessionConfig(max_context_length=1024)
    assert engine_needs(folder, config) == EngineNeeds(20 * 2, 1024 * 2 * 3 * 2 * 16 * 2, 4, 2, 96)
    assert engine_needs(folder, SessionConfig(dtype="float32")).weight_bytes == 80
    folder_make(tmp_path, intermediate_size=[96, 48], text_config={"head_dim": 8})
    found = engine_needs(folder, config)
    assert not found.divides(2), "widths that differ by layer are not divided"
    assert found.cache_bytes == 1024 * 2 * 3 * 2 * 8 * 2
    (folder / "model.safetensors").unlink()
    assert engine_needs(folder, config) == EngineNeeds(0)


class TwoSizes:
    """The driver of a machine whose GPUs have 24 and 16 bytes."""

    def sample(self) -> list[GpuSample]:
        return [GpuSample(name="", memory_total_bytes=size) for size in (24, 16, None)]


def test_the_device_with_the_least_memory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_parallel, "WORK_BYTES", 0)
    monkeypatch.setattr(tensor_parallel, "nvml_open", TwoSizes)
    folder = folder_make(tmp_path, intermediate_size=96, num_hidden_layers=0)
    config = SessionConfig(max_context_length=256, max_tokens=16)
    two = Placement("cuda", False, ("0", "1"), ("2", "0", "1"))
    with pytest.raises(PlacementImpossible, match="it has 2,"):  # 40 bytes of weights, 20 on each, 0.92 of 16
        tensor_parallel_plan(folder, config, two)
    four = Placement("cuda", False, ("0", "1", "2", "3"), ("4", "0", "1", "2", "3"))
    folder_make(tmp_path, intermediate_size=96, num_hidden_layers=0, num_key_value_heads=4)
    assert tensor_parallel_plan(folder, config, four) == 4
    assert tensor_parallel_plan(folder, config, Placement("cpu")) == 1
