"""Over how many devices an engine spreads: made-up devices, by hand; what cannot fit is refused
with the numbers.
"""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runtime.engine import tensor_parallel
from gpu_runtime.engine.tensor_parallel import (
    GIB,
    WORK_BYTES,
    EngineDevices,
    EngineNeeds,
    engine_devices_plan,
    engine_needs,
    tensor_parallel_choose,
)
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import Placement
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig

# Qwen2.5: shapes from the config.json of each. 32k tokens of context, bfloat16.
SMALL = EngineNeeds(int(3.1e9), 32_768 * 28_672, heads=12, key_heads=2, intermediate=8960)  # 1.5B
MIDDLE = EngineNeeds(int(15.2e9), 32_768 * 57_344, heads=28, key_heads=4, intermediate=18_944)  # 7B
LARGE = EngineNeeds(int(145e9), 32_768 * 327_680, heads=64, key_heads=8, intermediate=29_568)  # 72B


def choose(needs: EngineNeeds, memory_gib: float | None, devices: int = 8) -> int:
    memory = None if memory_gib is None else int(memory_gib * GIB)
    return tensor_parallel_choose(needs, devices=devices, memory_bytes=memory)


@pytest.mark.parametrize(
    ("needs", "memory_gib", "count"),
    [
        (SMALL, 80, 1),
        (MIDDLE, 80, 1),
        (LARGE, 80, 4),
        (LARGE, 141, 2),
        (MIDDLE, 16, 2),
        (SMALL, 8, 1),
    ],
)
def test_the_fewest_devices_that_the_model_fits(
    needs: EngineNeeds, memory_gib: float, count: int
) -> None:
    assert choose(needs, memory_gib) == count


def test_devices_that_the_trainer_uses_too_hold_less() -> None:
    assert (choose(MIDDLE, 24), choose(replace(MIDDLE, kept_bytes=0), 24)) == (1, 2), (
        "no more than a half"
    )
    assert (choose(SMALL, 40), choose(replace(SMALL, kept_bytes=31 * GIB), 40)) == (1, 2)


def test_what_the_trainer_leaves_of_a_shared_device_holds_the_weights_and_one_context_or_is_refused() -> (
    None
):
    """7B on an H200 keeps 99.3 GiB between steps; on a GPU of 80 GB there is no room for that."""
    kept = replace(MIDDLE, kept_bytes=int(7.616e9) * 14)
    assert choose(kept, 140.4, devices=1) == 1
    with pytest.raises(
        PlacementImpossible,
        match=r"of 79\.6 GiB.*keeps 99\.3 GiB.*use 0\.0 GiB.*15\.9 GiB there.*offload",
    ):
        choose(kept, 79.6, devices=1)
    room = MIDDLE.weight_bytes + MIDDLE.cache_bytes
    just = replace(MIDDLE, kept_bytes=40 * GIB - 4 * GIB - room)
    assert choose(just, 40, devices=1) == 1, "vLLM measures the rest"
    with pytest.raises(PlacementImpossible, match="one context"):
        choose(replace(just, kept_bytes=just.kept_bytes + 1), 40, devices=1)


def test_a_context_may_need_a_device_more_than_the_weights() -> None:
    long = EngineNeeds(
        MIDDLE.weight_bytes, 8 * MIDDLE.cache_bytes, heads=28, key_heads=4, intermediate=18_944
    )
    assert (choose(MIDDLE, 24), choose(long, 24)) == (1, 2)


def test_only_what_divides_the_layers_is_chosen() -> None:
    assert choose(MIDDLE, 6) == 4, "28 heads are not shared out among 8"
    with pytest.raises(
        PlacementImpossible, match=r"are 14\.2 GiB, 3\.5 GiB on each of 4 GPUs.*1\.8 of 2\.0 GiB"
    ):
        choose(MIDDLE, 2)


def test_what_fits_on_no_number_of_its_devices_is_refused_with_the_numbers() -> None:
    with pytest.raises(
        PlacementImpossible, match=r"135\.0 GiB on each of 1 GPUs.*73\.6 of 80\.0 GiB; it has 1,"
    ):
        choose(LARGE, 80, devices=1)


def test_weights_that_fit_with_little_beside_them_are_left_to_vllm_to_measure() -> None:
    tight = (MIDDLE.weight_bytes + WORK_BYTES / 2) / GIB / 0.92
    assert choose(MIDDLE, tight, devices=1) == 1


def test_a_size_or_a_memory_that_is_not_known_changes_nothing() -> None:
    assert choose(EngineNeeds(0), 80) == choose(LARGE, None) == 1


def folder_make(folder: Path, **fields: object) -> Path:
    config = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 64,
        "num_hidden_layers": 3,
    }
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

    def least_memory_bytes(self) -> int:
        return 16


def test_the_device_with_the_least_memory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_parallel, "WORK_BYTES", 0)
    monkeypatch.setattr(tensor_parallel, "nvml_open", TwoSizes)
    folder = folder_make(tmp_path, intermediate_size=96, num_hidden_layers=0)
    config = SessionConfig(max_context_length=256, max_tokens=16)
    two = Placement("cuda", False, ("0", "1"), ("2", "0", "1"))
    # 40 bytes of weights, 20 on each, 0.92 of 16
    with pytest.raises(PlacementImpossible, match="it has 2,"):
        engine_devices_plan(folder, config, two)
    four = Placement("cuda", False, ("0", "1", "2", "3"), ("4", "0", "1", "2", "3"))
    folder_make(tmp_path, intermediate_size=96, num_hidden_layers=0, num_key_value_heads=4)
    assert engine_devices_plan(folder, config, four) == EngineDevices(4, 14 / 16), (
        "0.92, in whole bytes"
    )
    assert engine_devices_plan(folder, config, Placement("cpu")) == EngineDevices()
    monkeypatch.setattr(tensor_parallel, "nvml_open", lambda: None)
    assert engine_devices_plan(folder, config, four) == EngineDevices(), "not known"


def test_the_part_that_a_shared_engine_takes_is_what_the_trainer_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_make(tmp_path)
    shared = Placement("cuda", True, ("0",), ("0",))
    for memory_bytes, part in ((16 * GIB, 0.5), (5 * GIB, (GIB - 20 * 16) / (5 * GIB))):
        driver = SimpleNamespace(least_memory_bytes=lambda total=memory_bytes: total)
        monkeypatch.setattr(tensor_parallel, "nvml_open", lambda driver=driver: driver)
        assert engine_devices_plan(folder, SessionConfig(), shared) == EngineDevices(1, part)
