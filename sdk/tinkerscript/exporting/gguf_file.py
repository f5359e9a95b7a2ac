"""A Hugging Face folder as one GGUF file for llama.cpp and what is built on it, by the `gguf`
package of llama.cpp.

Only what the tests have compared with transformers, token by token, is written; everything else is
refused by its name. Sources: the GGUF specification (ggml, docs/gguf.md); the architectures
"llama", "qwen2", "qwen3" and "gemma3" of llama.cpp.
"""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from gguf.utility import LocalTensor, SafetensorsLocal

from tinkerscript.errors import InvalidRequest

from . import gguf_gemma3
from .folder_files import Json, json_read
from .gguf_tokenizer import tokenizer_write
from .gguf_types import FILE_TYPES, Shape, rows_stored, stored_as
from .modelfile import modelfile

ARCHITECTURES = {
    "LlamaForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "Qwen2ForCausalLM": gguf.MODEL_ARCH.QWEN2,
    "Qwen3ForCausalLM": gguf.MODEL_ARCH.QWEN3,
    **dict.fromkeys(gguf_gemma3.NAMES, gguf.MODEL_ARCH.GEMMA3),
}
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
ROPE_DIVISORS = "rope_freqs.weight"
# The one kind of rope scaling that is written.
SCALED = {gguf.MODEL_ARCH.LLAMA: "llama3", gguf.MODEL_ARCH.GEMMA3: "linear"}
# Options of a config that change the computation, with the one value that is written.
ONLY = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "use_sliding_window": False,
}


def gguf_export(folder: Path, kind: str) -> list[Path]:
    """Write ``folder/gguf``: the model as ``kind`` (of FILE_TYPES), and a Modelfile. Returns both
    paths.

    Raises InvalidRequest, before anything is written, for a model of another architecture or with
    what is not proven.
    """
    target = folder / "gguf" / f"model-{kind}.gguf"
    config = config_read(folder)
    text = modelfile(folder, target.name, config["max_position_embeddings"])
    gguf_write(folder, target, kind)
    beside = target.with_name("Modelfile")
    beside.write_text(text, encoding="utf-8")
    return [target, beside]


def gguf_write(folder: Path, target: Path, kind: str) -> None:
    """Write the model of ``folder`` to ``target`` as ``kind`` (of FILE_TYPES), whole or not at all.

    Raises InvalidRequest for a model that is not one of ARCHITECTURES or has what was not proven;
    OSError.
    """
    config = config_read(folder)
    arch = architecture_of(config)
    partial = target.with_name(target.name + ".partial")
    writer = gguf.GGUFWriter(partial, gguf.MODEL_ARCH_NAMES[arch])
    _config_write(writer, config, FILE_TYPES[kind])
    if arch is gguf.MODEL_ARCH.GEMMA3:
        gguf_gemma3.config_write(writer, config)
    tokenizer_write(writer, folder, config)
    heads = config["num_attention_heads"]
    is_grouped = int(config.get("num_key_value_heads") or heads) < heads
    shape = Shape(config["num_hidden_layers"], config.get("tie_word_embeddings", False), is_grouped)
    if _rope(config).get("rope_type") == "llama3":
        writer.add_tensor(ROPE_DIVISORS, _divisors(config))
    for name, values in _tensors(folder, config, arch):
        wanted = stored_as(name, values.shape[-1], values.ndim, kind, shape)
        writer.add_tensor(name, rows_stored(values, wanted), raw_dtype=wanted)
    target.parent.mkdir(exist_ok=True)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        partial.replace(target)
    finally:
        writer.close()
        partial.unlink(missing_ok=True)


def config_read(folder: Path) -> Json:
    """Of the model that is written. Raises InvalidRequest, which names what is not."""
    config = json_read(folder / "config.json")
    arch = architecture_of(config)
    only = ONLY
    if arch is gguf.MODEL_ARCH.GEMMA3:
        config, only = gguf_gemma3.text_config(config), gguf_gemma3.ONLY
    for option, value in only.items():
        if config.get(option, value) != value:
            raise InvalidRequest(
                f"A model with {option} = {config[option]!r} is not written as GGUF."
            )
    kind = _rope(config).get("rope_type", "default")
    if kind not in ("default", SCALED.get(arch)):
        raise InvalidRequest(f"A model with rope scaling ({kind}) is not written as GGUF.")
    return config


def architecture_of(config: Json) -> gguf.MODEL_ARCH:
    """Raises InvalidRequest for one that is not written."""
    named = (config.get("architectures") or ["none"])[0]
    if named not in ARCHITECTURES:
        raise InvalidRequest(
            f"{named} is not written as GGUF.", hint=f"Those that are: {', '.join(ARCHITECTURES)}."
        )
    return ARCHITECTURES[named]


def _rope(config: Json) -> Json:
    rope: Json = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # folders of older versions of transformers have "type" for the kind
    kind = rope.get("type", "default")
    return {"rope_theta": config.get("rope_theta", 10000.0), "rope_type": kind} | rope


def _head_dim(config: Json) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _divisors(config: Json) -> np.ndarray:
    """By what llama.cpp divides the frequency of each pair of a head, in a model of the Llama 3
    form: 1 for short waves, ``factor`` for long ones, a mean of both rates between them.

    Source: llama-models, ``apply_scaling``; transformers, modeling_rope_utils.
    """
    rope = _rope(config)
    pairs = np.arange(0, _head_dim(config), 2, dtype=np.float64) / _head_dim(config)
    waves = 2 * np.pi * rope["rope_theta"] ** pairs
    first, low, high = (
        rope[name]
        for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    weight = np.clip((first / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - weight) / rope["factor"] + weight)).astype(np.float32)


def _config_write(writer: gguf.GGUFWriter, config: Json, file_type: gguf.LlamaFileType) -> None:
    heads = config["num_attention_heads"]
    head_dim = _head_dim(config)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(int(config.get("num_key_value_heads") or heads))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(float(_rope(config)["rope_theta"]))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _tensors(folder: Path, config: Json, arch: gguf.MODEL_ARCH) -> Iterator[tuple[str, np.ndarray]]:
    """Each weight in 32 bits under the name and in the order of rows that llama.cpp reads."""
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    is_tied = config.get("tie_word_embeddings", False)
    for path in sorted(folder.glob("*.safetensors")):
        for stored, tensor in SafetensorsLocal(path).tensors.items():
            name = gguf_gemma3.text_name(stored) if arch is gguf.MODEL_ARCH.GEMMA3 else stored
            if name is None or (name == "lm_head.weight" and is_tied):
                continue  # llama.cpp reads the embeddings again, and no tower of vision
            new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if new_name is None:
                raise InvalidRequest(
                    f"The weight {name} has no place in a GGUF file of {arch.name.lower()}."
                )
            values = _values(name, tensor)
            if arch is gguf.MODEL_ARCH.GEMMA3:
                values = gguf_gemma3.values_as_read(name, values, config)
            if arch is gguf.MODEL_ARCH.LLAMA and name.endswith(("q_proj.weight", "k_proj.weight")):
                heads = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
                values = _interleaved(
                    values, int(config.get(heads) or config["num_attention_heads"])
                )
            yield new_name, values


def _values(name: str, tensor: LocalTensor) -> np.ndarray:
    if tensor.dtype not in DTYPES:
        raise InvalidRequest(
            f"The weight {name} is stored as {tensor.dtype}: only {', '.join(DTYPES)} are read."
        )
    raw = tensor.mmap_bytes().view(DTYPES[tensor.dtype]).reshape(tensor.shape)
    if tensor.dtype == "BF16":  # the upper half of a float of 32 bits
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from halves to pairs: llama.cpp rotates neighbours where transformers
    rotates halves.
    """
    rows, columns = weight.shape
    return (
        weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )
