"""Tiny random models of each family that docs/models.md names: a few layers, every special field of the family set."""

from pathlib import Path

VOCABULARY = 98
DENSE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 256,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip
WINDOW = 12  # shorter than the probe, and than what the tests train
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

# Class of the configuration and its fields beside those of DENSE.
TRAINED = {
    "Llama": ("LlamaConfig", {}),
    "Qwen2": ("Qwen2Config", {}),
    "Qwen3": ("Qwen3Config", {}),
    "Gemma 2": ("Gemma2Config", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 0.5, **MIXED}),
    "Gemma 3": ("Gemma3TextConfig", {**MIXED}),
    "Mistral": ("MistralConfig", {"sliding_window": WINDOW}),
    "Phi": ("PhiConfig", {"num_key_value_heads": 2}),
    "Phi-3": ("Phi3Config", {"sliding_window": WINDOW}),
    "OLMo 2": ("Olmo2Config", {}),
    "SmolLM3": ("SmolLM3Config", {}),
    "Granite": ("GraniteConfig", {"logits_scaling": 8.0, "residual_multiplier": 0.5, "embedding_multiplier": 3.0}),
    "Cohere": ("CohereConfig", {"logit_scale": 3.0}),
    "GLM-4": ("Glm4Config", {}),
    "GPT-2": ("GPT2Config", {"n_positions": 256, "n_embd": 64, "n_layer": 2, "n_head": 2}),
    "OPT": ("OPTConfig", {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "GPT-NeoX": ("GPTNeoXConfig", {"num_key_value_heads": 2}),
}
REFUSED = {
    "Qwen2 with windows": ("Qwen2Config", {"use_sliding_window": True, "max_window_layers": 1, **MIXED}),
    "Qwen3-MoE": ("Qwen3MoeConfig", {**EXPERTS}),
    "Mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "GPT-OSS": ("GptOssConfig", {"num_local_experts": 4, **MIXED}),
    "OLMoE": ("OlmoeConfig", {**EXPERTS}),
}
SPREAD = 0.2  # of random weights: ten times the default, so that a wrong factor moves log-probabilities by nats


def family_make(folder: Path, name: str) -> Path:
    """Write the model of ``name`` as a Hugging Face folder; the same name gives the same bytes."""
    import torch
    import transformers

    kind, fields = (TRAINED | REFUSED)[name]
    config = getattr(transformers, kind)(**(DENSE | {"initializer_range": SPREAD} | fields))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=SPREAD)
        model.save_pretrained(folder)
    return folder
