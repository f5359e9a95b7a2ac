"""The chat templates that real model families have, from a package that ships them (TRL)."""

from importlib.util import find_spec
from pathlib import Path

# Family -> the mark that ends an assistant's turn.
REAL_TEMPLATES = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "deepseek_r1_distill": "<｜end▁of▁sentence｜>",
    "gptoss": "<|return|>",
}

# Of models that write their calls in other ways than JSON.
OTHER_CALLS = {
    "qwen3_5_think": "<|im_end|>",
    "qwen3_5_nothink": "<|im_end|>",
    "qwen3_6": "<|im_end|>",
    "qwen3_8": "<|im_end|>",
    "nemotron_3_nano": "<|im_end|>",
    "nemotron_3_super": "<|im_end|>",
    **dict.fromkeys(("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"), "<turn|>"),
}

# Mistral's own package writes the templates of its tokenizers' versions; the last two are those of
# Magistral.
MISTRAL_VERSIONS: dict[str, tuple[str, dict[str, bool]]] = {
    "mistral_v3": ("v3", {"spm": True}),
    "mistral_v7": ("v7", {}),
    "mistral_v11": ("v11", {}),
    "magistral_v11": ("v11", {"plain_thinking_support": True}),
    "magistral_v13": ("v13", {"thinking_support": True}),
}


def real_template(family: str) -> tuple[str, str]:
    """The template and the end of turn of one of ``REAL_TEMPLATES``, ``OTHER_CALLS`` or
    ``MISTRAL_VERSIONS``.
    """
    if family in MISTRAL_VERSIONS:
        return _mistral_template(family), "</s>"
    package = find_spec("trl")
    assert package is not None and package.submodule_search_locations, "TRL is not installed"
    folder = Path(next(iter(package.submodule_search_locations))) / "chat_templates"
    return (folder / f"{family}.jinja").read_text(), (REAL_TEMPLATES | OTHER_CALLS)[family]


def _mistral_template(family: str) -> str:
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    version, has = MISTRAL_VERSIONS[family]
    parts = ("spm", "image_support", "audio_support", "thinking_support", "plain_thinking_support")
    absent = (
        "default_system_prompt",
        "model_settings_fields",
        "reasoning_effort_values",
        "reasoning_effort_default",
    )
    return generate_chat_template(
        tokenizer_version=TokenizerVersion(version),
        use_special_token_variables=True,
        **{part: has.get(part, False) for part in parts},
        **dict.fromkeys(absent),
    )
