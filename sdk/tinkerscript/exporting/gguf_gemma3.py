"""What of Gemma 3 llama.cpp takes in another form than transformers: its architecture "gemma3".

The text side alone: a tower of vision stays in the folder. Sources: transformers,
configuration_gemma3 and modeling_gemma3; llama.cpp, src/models/gemma3.cpp.
"""

import gguf
import numpy as np

from tinkerscript.errors import InvalidRequest

from .folder_files import Json

NAMES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
# Those of Gemma3TextConfig: published configurations leave out what equals them.
DEFAULTS: Json = {
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "sliding_window": 4096,
    "sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
}  # fmt: skip
# Options that change the computation, with the one value that is written.
ONLY = {
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "use_bidirectional_attention": False,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}
USUAL_PERIOD = 6  # what llama.cpp takes where a file names none
# Of a model with a tower of vision: beginnings of names, and those of a model of text alone.
SIDES = {
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.",
}
OTHER_SIDES = ("vision_tower.", "multi_modal_projector.")
LAYERS_27B = 62  # by which llama.cpp tells the model with another scale of attention


def text_config(config: Json) -> Json:
    """Of the text side, with every default, and its rope in the keys of transformers 4.

    Raises InvalidRequest, which names what is not written.
    """
    given = config | config.get("text_config", {})
    if "tie_word_embeddings" in config:  # an export says there whether it unties them
        given["tie_word_embeddings"] = config["tie_word_embeddings"]
    text = DEFAULTS | {name: value for name, value in given.items() if value is not None}
    by_kind: Json = text.pop("rope_parameters", {})
    if local := by_kind.get("sliding_attention"):
        if (kind := local.get("rope_type", "default")) != "default":
            raise InvalidRequest(f"Layers with a window and rope {kind} are not written as GGUF.")
        text["rope_local_base_freq"] = local.get("rope_theta", text["rope_local_base_freq"])
    if whole := by_kind.get("full_attention"):
        text["rope_theta"] = whole.get("rope_theta", text["rope_theta"])
        text["rope_scaling"] = {name: whole[name] for name in whole if name != "rope_theta"}
    return text | {"sliding_window_pattern": _period(text)}


def _period(text: Json) -> int:
    """Of how many layers the last sees everything, where the others have a window."""
    kinds, layers = text.get("layer_types"), range(1, text["num_hidden_layers"] + 1)
    if kinds is None:
        return int(text["sliding_window_pattern"])
    for period in (USUAL_PERIOD, *range(1, len(layers) + 2)):
        if kinds == ["sliding_attention" if n % period else "full_attention" for n in layers]:
            return period
    raise InvalidRequest(
        "A model whose layers with a window do not follow a period is not written as GGUF."
    )


def config_write(writer: gguf.GGUFWriter, text: Json) -> None:
    """Windows and rope, beside what every architecture has. ``text`` is of ``text_config``."""
    writer.add_sliding_window(text["sliding_window"])
    writer.add_sliding_window_pattern(text["sliding_window_pattern"])
    writer.add_rope_freq_base_swa(float(text["rope_local_base_freq"]))
    scaling = text.get("rope_scaling", {})
    if scaling.get("rope_type", scaling.get("type")) == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(scaling["factor"]))


def text_name(name: str) -> str | None:
    """The weight ``name`` as a model of text alone has it; None of a weight of another side."""
    if name.removeprefix("model.").startswith(OTHER_SIDES):
        return None
    for whole, alone in SIDES.items():
        if name.startswith(whole):
            return alone + name.removeprefix(whole)
    return name


def values_as_read(name: str, values: np.ndarray, config: Json) -> np.ndarray:
    """Norms with the 1 that transformers adds as it computes.

    Those of queries also have the scale of attention, which llama.cpp takes from the shape and not
    from ``query_pre_attn_scalar``.
    """
    if not name.endswith("norm.weight"):
        return values
    values = values + np.float32(1)
    if name.endswith("q_norm.weight"):
        heads, head_dim = config["num_attention_heads"], config["head_dim"]
        is_27b = config["num_hidden_layers"] == LAYERS_27B
        taken = config["hidden_size"] // heads if is_27b else head_dim
        values = values * np.float32((taken / config["query_pre_attn_scalar"]) ** 0.5)
    return values
