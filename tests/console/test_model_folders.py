"""The files of a base model are looked at for each session, and read anew only once they are
others.
"""

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

from console.catalogue.base_models import BaseModel
from console.errors import ModelUnsupported
from console.sessions.dry_run import engine_check
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import (
    CPU_HEAD_SIZES,
    engine_refusal,
    folder_refusal,
)

CONFIG = SessionConfig(max_context_length=128)


def tokenizer_write(folder: Path, *ids: int) -> None:
    vocabulary = {f"token {number:06d}": number for number in ids}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))


def test_a_tokenizer_is_read_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"], "vocab_size": 10}))
    assert folder_refusal(tmp_path, CONFIG) is None, "no tokenizer says nothing"
    tokenizer_write(tmp_path, 7, 8)
    assert folder_refusal(tmp_path, CONFIG) is None
    at = (tmp_path / "tokenizer.json").stat().st_mtime_ns
    # As the file system tells it, it is the same file: no megabytes are read for it.
    with (tmp_path / "tokenizer.json").open("r+b") as file:
        file.write(b"?")
    os.utime(tmp_path / "tokenizer.json", ns=(at, at))
    assert folder_refusal(tmp_path, CONFIG) is None
    tokenizer_write(tmp_path, 7, 8, 10)
    assert "vocab_size is 10" in (folder_refusal(tmp_path, CONFIG) or "")
    (tmp_path / "tokenizer.json").unlink()
    assert folder_refusal(tmp_path, CONFIG) is None


def test_one_that_is_replaced_by_another_of_the_same_length_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"], "vocab_size": 10}))
    tokenizer_write(tmp_path, 7)
    assert folder_refusal(tmp_path, CONFIG) is None
    at = (tmp_path / "tokenizer.json").stat().st_mtime_ns
    (tmp_path / "other").mkdir()
    tokenizer_write(tmp_path / "other", 7)
    text = (tmp_path / "other" / "tokenizer.json").read_text().replace(" 7}", "99}")
    assert len(text) == (tmp_path / "tokenizer.json").stat().st_size
    (tmp_path / "other" / "tokenizer.json").write_text(text)
    os.utime(tmp_path / "other" / "tokenizer.json", ns=(at, at))
    (tmp_path / "other" / "tokenizer.json").replace(tmp_path / "tokenizer.json")
    assert "up to 99" in (folder_refusal(tmp_path, CONFIG) or "")


def test_a_head_size_that_the_engine_lacks_on_a_cpu_is_named_before_the_start(
    tmp_path: Path,
) -> None:
    def refusal(*, on_gpu: bool = False, **fields: object) -> str | None:
        shape = {"architectures": ["A"], "hidden_size": 256, "num_attention_heads": 4}
        (tmp_path / "config.json").write_text(json.dumps(shape | fields))
        return engine_refusal(tmp_path, on_gpu=on_gpu)

    told = refusal(head_dim=48) or ""
    assert "heads have 48 numbers" in told and "32, 64, 80" in told and "places" not in told
    assert refusal(hidden_size=192) and refusal(head_dim=64, global_head_dim=72)
    assert refusal(text_config={"head_dim": 48})
    served = ({}, {"head_dim": 128}, {"hidden_size": 160, "attention_head_dim": 32})
    assert [refusal(**fields) for fields in served] == [None] * 3
    assert refusal(head_dim=48, on_gpu=True) is None, "the engine has a kernel for every size there"
    assert refusal(head_dim=24, kv_lora_rank=16) is None, "latent attention has kernels of its own"
    with pytest.raises(ModelUnsupported, match="heads have 48") as refused:
        refusal(head_dim=48)
        engine_check(BaseModel("odd", str(tmp_path)), on_gpu=False)
    assert refused.value.details["fields"][0]["field"] == "base_model"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"model_type": "llama4_text", "attention_chunk_size": 16},
            "attention_chunk_size is 16, and the engine takes multiples of 128 there",
        ),
        ({"model_type": "llama4_text", "attention_chunk_size": 8192}, None),
        (
            {"model_type": "nemotron_h", "n_routed_experts": 2, "num_experts_per_tok": 1},
            "n_routed_experts are experts without a gate",
        ),
        ({"model_type": "kimi_linear"}, "model_type is kimi_linear"),
    ],
)
def test_an_operator_that_the_engine_lacks_on_a_cpu_is_named_before_the_start(
    tmp_path: Path, fields: dict[str, object], said: str | None
) -> None:
    shapes = {f"backbone.layers.0.mixer.experts.{i}.up_proj.weight": [4, 4] for i in range(2)}
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"]} | fields))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(safetensors_bytes(shapes))
    told = engine_refusal(tmp_path, on_gpu=False)
    assert told is None if said is None else said in (told or "")
    assert engine_refusal(tmp_path, on_gpu=True) is None
    weights.write_bytes(safetensors_bytes({"backbone.norm.weight": [4]}))
    dense = engine_refusal(tmp_path, on_gpu=False)
    assert (dense is None) == (said is None or "n_routed_experts" in said), "a layer of experts"


def test_the_head_sizes_are_those_of_the_engine_that_is_installed() -> None:
    """Read from its file: the module itself takes seconds to import."""
    engine = importlib.util.find_spec("vllm")
    if engine is None or engine.origin is None:
        pytest.skip("there is no engine here")
    file = Path(engine.origin).parent / "v1/attention/backends/cpu_attn.py"
    found = re.search(
        r"def get_supported_head_sizes.*?return (\[[^]]*\])", file.read_text(), re.DOTALL
    )
    assert found and tuple(json.loads(found[1])) == CPU_HEAD_SIZES
