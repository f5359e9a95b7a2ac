"""Weights that are exported are the trainer's own memory, seen from another process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_runtime.weights import shared_memory
from gpu_runtime.weights.shared_memory import NAME, SharedMemoryExport, tensors_map

ROOT = Path(__file__).resolve().parents[3]
LOOK = """
import json, sys
from gpu_runtime.weights.shared_memory import tensors_map
places = json.load(open(sys.argv[1]))
mapped = tensors_map(places)
print(json.dumps({name: tensor.double().tolist() for name, tensor in mapped.items()}))
"""


def flat_model() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """One storage with two weights in it, as DeepSpeed lays them out, and a weight of its own."""
    flat = torch.arange(20.0)
    alone = torch.full((3,), 7, dtype=torch.bfloat16)
    return flat, {"a": flat[2:8].view(2, 3), "b": flat[8:12], "alone": alone}


def seen_elsewhere(folder: Path) -> dict[str, torch.Tensor]:
    said = subprocess.run(
        [sys.executable, "-c", LOOK, folder / NAME],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name: torch.tensor(values) for name, values in json.loads(said.stdout).items()}


@pytest.mark.system
def test_another_process_sees_every_weight_and_the_next_step_too(tmp_path: Path) -> None:
    flat, weights = flat_model()
    exporter = SharedMemoryExport()
    for change in (0.0, 100.0):
        flat.add_(change)  # in place, through the storage that the weights are views of
        assert exporter.export(weights, tmp_path)
        seen = seen_elsewhere(tmp_path)
        assert seen.keys() == weights.keys()
        assert all(torch.equal(seen[name], weights[name].float()) for name in weights)


def test_memory_is_moved_once_and_views_of_it_follow(tmp_path: Path) -> None:
    flat, weights = flat_model()
    exporter = SharedMemoryExport()
    assert exporter.export(weights, tmp_path)
    first, text = flat.data_ptr(), (tmp_path / NAME).read_text()
    assert weights["a"].data_ptr() == flat[2:].data_ptr()
    assert exporter.export(weights, tmp_path)
    assert (flat.data_ptr(), (tmp_path / NAME).read_text()) == (first, text), (
        "a reader need not map anew"
    )
    mapped = tensors_map(json.loads(text))
    flat[8] = -1
    assert mapped["b"][0] == -1


def test_weights_without_room_are_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, weights = flat_model()
    exporter = SharedMemoryExport()
    assert exporter.export(weights, tmp_path)
    monkeypatch.setattr(shared_memory, "MARGIN_BYTES", 1 << 60)
    _, others = flat_model()
    assert not SharedMemoryExport().export(others, tmp_path)
    assert not (tmp_path / NAME).exists(), "no one reads what was exported before"


def test_what_was_exported_by_a_trainer_that_is_gone_is_an_error(tmp_path: Path) -> None:
    flat, weights = flat_model()
    assert SharedMemoryExport().export(weights, tmp_path)
    places = json.loads((tmp_path / NAME).read_text())
    gone = {name: place | {"path": "/proc/0/fd/3"} for name, place in places.items()}
    with pytest.raises(RuntimeError):
        tensors_map(gone)
