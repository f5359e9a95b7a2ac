"""What is refused by the files of a model's folder alone: by the server that creates a session, and
by its runtime.

``docs/models.md`` has the table of families. What passes here is still proven on the model itself:
the trainer against the model's own forward, then engine against trainer (``model_check.py``,
``rehearsal.py`` of ``gpu_runtime``).
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tinkerscript.wire.config import SessionConfig

from .models.folder_parts import parts_refusal
from .models.mixtures import mixture_of
from .models.proven import PROVEN
from .models.quantised import quantised_refusal, quantised_words, weights_count
from .models.weight_files import config_fields, json_read, weights_damage, weights_stored
from .prefixes import apart_words, prefixes_apart

# vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend.get_supported_head_sizes
CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
CPU_BLOCK = 128  # tokens of a block of keys and values there
HEAD_SIZES = ("head_dim", "global_head_dim")  # the names of config.json
READ_BY_NAME = ("vision_config", "audio_config", "quantization_config")  # whose tensors are


def folder_refusal(folder: Path, config: SessionConfig) -> str | None:
    """Why the model in ``folder`` cannot be trained right under ``config``, with the field named;
    None where no file says so. Files that are not there, or are no JSON, say nothing: a runtime
    reports them when it loads the model.
    """
    if damage := weights_damage(folder):
        return damage
    whole = json_read(folder / "config.json")
    fields = config_fields(whole)
    name = (whole.get("architectures") or [whole.get("model_type", "this model")])[0]
    why = _refusal(fields, config) or quantised_refusal(whole, folder)
    why = why or parts_refusal(
        whole, fields, weights_stored(folder), json_read(folder / "generation_config.json")
    )
    why = why or _older_form(whole, folder)
    why = why or head_refusal(fields.get("vocab_size"), _largest_token(folder / "tokenizer.json"))
    return f"{name} is not trained here: {why}" if why else None


def engine_refusal(folder: Path, *, on_gpu: bool) -> str | None:
    """Why the engine of a machine cannot serve the model in ``folder``; None where no file says so.

    On GPUs the engine has a kernel for every head size.
    """
    fields = config_fields(whole := json_read(folder / "config.json"))
    sizes = [fields[name] for name in HEAD_SIZES if type(fields.get(name)) is int]
    width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    # a family with another name for it has no such quotient
    if not any("head_dim" in name or name == "kv_channels" for name in fields):
        sizes = []
        if isinstance(width, int) and isinstance(heads, int) and heads > 0:
            sizes = [width // heads]
    lacks = sorted(set(sizes) - set(CPU_HEAD_SIZES))
    why = _operator_lacking(fields, folder)
    if lacks and "kv_lora_rank" not in fields:
        why = (
            f"its attention heads have {lacks[0]} numbers (head_dim, or hidden_size / "
            "num_attention_heads), and the engine has kernels for "
            f"{', '.join(map(str, CPU_HEAD_SIZES))} there"
        )
    if on_gpu or why is None:
        return None
    name = (whole.get("architectures") or [whole.get("model_type", "this model")])[0]
    return f"{name} is not served on a CPU: {why}; take a place with GPUs or another model"


def _operator_lacking(fields: dict[str, Any], folder: Path) -> str | None:
    """What of a model's layers vLLM 0.32 computes on GPUs alone; docs/models.md has how each was
    seen.
    """
    kind, chunk = fields.get("model_type"), fields.get("attention_chunk_size")
    if kind == "llama4_text" and isinstance(chunk, int) and chunk % CPU_BLOCK:
        return (
            f"attention_chunk_size is {chunk}, and the engine takes multiples of {CPU_BLOCK} there"
        )
    if kind == "nemotron_h" and mixture_of(folder) is not None:
        return (
            "n_routed_experts are experts without a gate, which the engine computes on GPUs alone"
        )
    if kind == "kimi_linear":
        return "model_type is kimi_linear, whose linear attention the engine has for GPUs alone"
    return None


def prefixes_words(folder: Path, grpo_n: int | None) -> str | None:
    """That the model in ``folder`` shares no prefixes, and what that costs; None where no file says
    so.
    """
    why = prefixes_apart(config_fields(json_read(folder / "config.json")))
    return apart_words(why, grpo_n) if why else None


def proven_words(folder: Path) -> str:
    """Whether engine and trainer were seen to agree on a model of ``folder``'s type."""
    whole = json_read(folder / "config.json")
    kinds = [each.get("model_type") for each in (whole, whole.get("text_config") or {})]
    if PROVEN.intersection(kinds):
        return f"proven: engine and trainer agree on a tiny model of its type ({kinds[0]})"
    return (
        f"not proven: no model of its type ({kinds[0]}) was seen to agree, and the rehearsal of "
        "its first session decides (docs/models.md)"
    )


def quantised_plan(folder: Path) -> str | None:
    """That the model in ``folder`` is quantised, and what is done then; None where no file says
    so.
    """
    return quantised_words(json_read(folder / "config.json"), weights_count(folder))


def positions_count(folder: Path) -> int | None:
    """How many positions the model in ``folder`` has; None where no file says so."""
    count = _positions(config_fields(json_read(folder / "config.json")))
    return count if isinstance(count, int) else None


def window_reached(fields: dict[str, Any], context_length: int) -> int:
    """The attention window that contexts of this length go beyond; 0 where the model has none, or
    one that is off.

    Families that can leave it off keep its length in ``config.json`` (Qwen2.5: 32,768,
    ``use_sliding_window`` false).
    """
    window = fields.get("sliding_window")
    if not isinstance(window, int) or fields.get("use_sliding_window") is False:
        return 0
    return window if 0 < window < context_length else 0


def _positions(fields: dict[str, Any]) -> Any:
    return fields.get("max_position_embeddings") or fields.get("n_positions")


def _refusal(fields: dict[str, Any], config: SessionConfig) -> str | None:
    first, layers = fields.get("max_window_layers"), fields.get("num_hidden_layers")
    is_windowed = fields.get("model_type") == "qwen2" and fields.get("use_sliding_window")
    if is_windowed and isinstance(first, int) and isinstance(layers, int) and 0 < first < layers:
        return (
            f"max_window_layers is {first} of {layers} layers, and the engine computes windows of "
            "Qwen2 in all of them"
            " or in none; use_sliding_window false in its config.json would work, if its context "
            "is no longer than the"
            " window"
        )
    if config.sequence_parallel and (why := prefixes_apart(fields)):
        return (
            f"sequence_parallel is on, and {why}: its timelines are computed whole, and ranks "
            "share rows of attention"
            " over trees alone; turn the option off"
        )
    if fields.get("is_encoder_decoder"):
        return "is_encoder_decoder: only decoders are trained"
    if (original := _long_rope_begins(fields)) and original < config.max_context_length:
        return (
            f"max_context_length is {config.max_context_length}, and beyond {original} tokens its "
            "rotary factors are"
            " others (longrope): the engine would take the long ones for every call, the trainer "
            "only for long rows;"
            f" set max_context_length to {original} at most"
        )
    longest = _positions(fields)
    if isinstance(longest, int) and longest < config.max_context_length:
        return (
            f"max_context_length is {config.max_context_length} and its positions end at "
            f"{longest}; lower the option"
        )
    return None


def _older_form(whole: dict[str, Any], folder: Path) -> str | None:
    """Of towers and of packed weights, files in another form than safetensors."""
    field = next((name for name in READ_BY_NAME if whole.get(name)), None)
    older = sorted(folder.glob("pytorch_model*.bin")) if folder.is_absolute() else []
    if field is None or not older or weights_stored(folder):
        return None
    return (
        f"config.json has {field}, and {older[0].name} has its weights, which are read from "
        "safetensors alone there; load the model with transformers and write it by save_pretrained"
    )


def _long_rope_begins(fields: dict[str, Any]) -> int | None:
    """The length from which a model with LongRoPE (Phi-3 of 128k) takes its long factors; None for
    any other model.
    """
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type")) not in ("longrope", "su"):
        return None
    original = fields.get("original_max_position_embeddings") or rope.get(
        "original_max_position_embeddings"
    )
    return original if isinstance(original, int) else None


def head_refusal(size: object, largest: int) -> str | None:
    """Why a head of ``size`` tokens does not serve a tokenizer whose greatest id is ``largest``;
    None where it does.
    """
    if isinstance(size, int) and 0 < size <= largest:
        return (
            f"vocab_size is {size}, so its head ends at token {size - 1}, and its tokenizer has "
            f"tokens up to {largest};"
            " take the tokenizer that the model was trained with, or resize the model's embeddings"
        )
    return None


def _largest_token(path: Path) -> int:
    """The greatest id of a tokenizer.json; -1 without one. A file of megabytes: read anew only once
    it is another.
    """
    try:
        now = path.stat()
    except OSError:
        return -1
    return _largest_token_of(path, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=64)
def _largest_token_of(path: Path, *_which: int) -> int:
    return max(_token_ids(json_read(path)), default=-1)


def _token_ids(tokenizer: dict[str, Any]) -> Iterator[int]:
    """Of tokenizer.json, as the library "tokenizers" writes it: a vocabulary by name or in order,
    and added tokens.
    """
    vocabulary = (tokenizer.get("model") or {}).get("vocab") or {}
    yield from vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    yield from (token["id"] for token in tokenizer.get("added_tokens") or ())
