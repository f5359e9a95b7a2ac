"""For how many adapters an engine has room, by the model's sizes and the memory of its device."""

import json
from pathlib import Path

import pytest

from gpu_runtime.engine.served import adapter_folders
from gpu_runtime.engine.served.adapter_folders import AdapterFolders, adapters_room, room_rank

GIB = 1 << 30
SMALL = {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30,
         "intermediate_size": 1536, "vocab_size": 49152}  # fmt: skip
LARGE = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
         "intermediate_size": 14336, "vocab_size": 128256}  # fmt: skip


def room(monkeypatch: pytest.MonkeyPatch, folder: Path, fields: dict, rank: int, gib: int) -> tuple:
    monkeypatch.setattr(adapter_folders.machine_share, "memory_bytes", lambda: gib * GIB)
    (folder / "config.json").write_text(json.dumps(fields))
    return adapters_room(folder, rank, "cpu")


def test_adapters_in_a_batch_and_in_memory_are_as_many_as_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = room(monkeypatch, tmp_path, SMALL, 32, 24)
    assert usual[0] >= 16 and usual[1] >= usual[0], "sixteen people with one each"
    assert room(monkeypatch, tmp_path, SMALL, 256, 24)[0] < usual[0]
    assert room(monkeypatch, tmp_path, SMALL, 8, 200)[0] == adapter_folders.MOST_AT_ONCE
    assert room(monkeypatch, tmp_path, LARGE, 256, 24) == (2, 2), "never less than two"
    assert room(monkeypatch, tmp_path, LARGE, 8, 1024)[1] > 100
    assert room(monkeypatch, tmp_path, {"model_type": "of sizes that are not told"}, 8, 24) == (
        adapter_folders.USUAL_AT_ONCE,
        adapter_folders.USUAL_LOADED,
    )


def test_an_adapters_rank_is_read_from_its_folder_and_room_is_made_for_it(tmp_path: Path) -> None:
    folders = AdapterFolders()
    assert folders.rank(tmp_path) == 0, "vLLM refuses what has no configuration"
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 33}))
    assert folders.rank(tmp_path) == 33
    assert [room_rank(rank) for rank in (0, 8, 33, 256, 9999)] == [8, 8, 64, 256, 512]
