"""Uploaded weights are those of their base model, whole, or are refused by what is wrong."""

import json
from typing import Any

import pytest

from console.catalogue.base_models import BaseModel
from console.errors import InvalidRequest
from console.tinker import uploaded_files
from support.safetensors_bytes import safetensors_bytes

SHAPES = {"model.embed_tokens.weight": [5, 4], "model.norm.weight": [4]}
BASE = {name: tuple(shape) for name, shape in SHAPES.items()}
NORM = {"dtype": "F32", "shape": [4], "data_offsets": [80, 96]}


def check(body: bytes, size_bytes: int | None = None) -> None:
    asked: list[int] = []

    def read(offset: int, count: int) -> bytes:
        asked.append(count)
        return body[offset : offset + count]

    try:
        uploaded_files.weights_check(read, len(body) if size_bytes is None else size_bytes, BASE)
    finally:
        assert sum(asked) <= 8 + uploaded_files.MAX_HEADER_BYTES


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_the_bases_weights_and_a_head_of_its_own_are_taken(dtype: str) -> None:
    check(safetensors_bytes(SHAPES, dtype=dtype))
    check(safetensors_bytes(SHAPES | {"lm_head.weight": [5, 4]}, dtype=dtype))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "0 bytes"),
        (b"\xff" * 8 + b"{}", "header would have"),
        ((200).to_bytes(8, "little") + b"{}", "header would have 200 bytes"),
        ((2).to_bytes(8, "little") + b"[]", "no JSON object"),
        ((2).to_bytes(8, "little") + b"{x", "no JSON object"),
        ((6000).to_bytes(8, "little") + b"[" * 6000, "no JSON object"),
        (safetensors_bytes(SHAPES)[:-1], "its header speaks of"),
        (safetensors_bytes(SHAPES) + b"x", "its header speaks of"),
        (safetensors_bytes({"model.embed_tokens.weight": [5, 4]}), "no tensor 'model.norm.weight'"),
        (safetensors_bytes(SHAPES | {"model.extra": [1]}), "'model.extra'"),
        (safetensors_bytes(SHAPES | {"lm_head.weight": [6, 4]}), "'lm_head.weight' has the shape [6, 4]"),
        (safetensors_bytes(SHAPES | {"model.norm.weight": [2, 2]}), "has the shape [2, 2]"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": NORM | {"dtype": "I64"}}), "holds I64"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": NORM | {"data_offsets": [0, 16]}}), "overlap"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": NORM | {"data_offsets": [84, 100]}}), "overlap"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": NORM | {"data_offsets": [80, 1 << 60]}}), "which are not"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": NORM | {"data_offsets": [96, 80]}}), "which are not"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": {"dtype": "F32"}}), "no dtype, shape"),
        (safetensors_bytes(SHAPES, **{"model.norm.weight": [1]}), "no dtype, shape"),
    ],
)  # fmt: skip
def test_weights_that_are_not_the_bases_are_refused_by_what_is_wrong(
    body: bytes, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(body)
    assert said in refused.value.message


def test_what_is_parsed_of_an_upload_is_small() -> None:
    """A header has room for the base's tensors; a configuration is no larger than one is."""
    header = json.dumps({"__metadata__": {"format": "pt", "note": "x" * 70_000}}).encode()
    with pytest.raises(InvalidRequest, match="header would have"):
        check(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InvalidRequest, match="config.json has"):
        uploaded_files.sizes_check({"config.json": 2 << 20, "model.safetensors": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"[]", "no JSON object"), (b"{", "no JSON object"), (b"[" * 6000, "no JSON object"),
        ({"model_type": "gpt2"}, "model_type 'gpt2'"), ({"hidden_size": 8}, "hidden_size 8"),
        ({"vocab_size": None}, "vocab_size None"), ({"auto_map": {}}, "auto_map"),
    ],
)  # fmt: skip
def test_a_configuration_of_another_model_is_refused(tmp_path: Any, given: Any, said: str) -> None:
    config = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "vocab_size": 5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = BaseModel(name="mine", path=str(tmp_path))
    uploaded_files.config_check(json.dumps(config | {"use_cache": True}).encode(), model)
    body = given if isinstance(given, bytes) else json.dumps(config | given).encode()
    with pytest.raises(InvalidRequest) as refused:
        uploaded_files.config_check(body, model)
    assert said in refused.value.message
