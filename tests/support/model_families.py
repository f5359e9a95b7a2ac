"""Tiny random models of each family that docs/models.md names: a few layers, every special field of
the family set.
"""

import json
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
ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
    "routed_scaling_factor": 1.5, "first_k_dense_replace": 1,
}  # fmt: skip
LATENT = {  # the CPU's kernel is made for 512 + 64 numbers of a token
    "head_dim": 64, "kv_lora_rank": 512, "q_lora_rank": 24, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32,
    "v_head_dim": 32, "num_key_value_heads": 2,
}  # fmt: skip

GATED_DELTA = {
    "layer_types": ["linear_attention", "full_attention"], "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4,
}  # fmt: skip
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}

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
    "Apertus": ("ApertusConfig", {}),
    "Cohere 2": ("Cohere2Config", {**MIXED, "logit_scale": 3.0}),
    "ERNIE 4.5": ("Ernie4_5Config", {}),
    "EXAONE 4": ("Exaone4Config", {**MIXED}),
    "Gemma 3n": (
        "Gemma3nTextConfig",
        {
            "layer_types": MIXED["layer_types"] * 2, "sliding_window": WINDOW, "num_hidden_layers": 4,
            "num_kv_shared_layers": 2, "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 16,
            "laurel_rank": 8, "activation_sparsity_pattern": [0.0] * 4,
        },
    ),
    "Gemma 4": (
        "Gemma4TextConfig",
        {
            **MIXED, "global_head_dim": 64, "num_kv_shared_layers": 0, "vocab_size_per_layer_input": VOCABULARY,
            "hidden_size_per_layer_input": 16,
        },
    ),
    "Hunyuan": ("HunYuanDenseV1Config", {}),
    "Ministral 3": ("Ministral3Config", {}),
    "OLMo 3": ("Olmo3Config", {**MIXED}),
}  # fmt: skip
# Mixtures of experts.
MIXTURES = {
    "Qwen3-MoE": ("Qwen3MoeConfig", {**EXPERTS}),
    "Mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "OLMoE": ("OlmoeConfig", {**EXPERTS}),
    "Granite MoE": ("GraniteMoeConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "GLM-4.5": ("Glm4MoeConfig", {**ROUTED, "partial_rotary_factor": 0.5}),
    "GLM-4.7-Flash": ("Glm4MoeLiteConfig", {**ROUTED, **LATENT, "mlp_layer_types": ["dense", "sparse"]}),
    "DeepSeek V3": (
        "DeepseekV3Config",
        # the last two are of every published folder, and vLLM alone reads them
        {**ROUTED, **LATENT, "n_group": 2, "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid"},
    ),
    "Phi-MoE": (
        "PhimoeConfig",
        # the two biases are of every published folder, and vLLM always has the second
        {"num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True},
    ),
    "ERNIE 4.5 MoE": (
        "Ernie4_5_MoeConfig",
        {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1},
    ),
    "MiniMax M2": (
        "MiniMaxM2Config",
        # the last three are of every published folder, and vLLM alone reads them
        {
            "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 16, "scoring_func": "sigmoid",
            "use_routing_bias": True,
        },
    ),
    "Hunyuan MoE": ("HunYuanMoEV1Config", {"num_experts": 4, "moe_topk": 2}),
    "Gemma 4 MoE": (
        "Gemma4TextConfig",
        {
            **MIXED, "global_head_dim": 64, "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 0,
            "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32,
        },
    ),
}  # fmt: skip
# Whose layers share no prefixes: by the model's own forward, each timeline whole.
PLAIN = {
    "Qwen3.5": ("Qwen3_5TextConfig", GATED_DELTA),
    "LFM2": (
        "Lfm2Config",
        {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False, "conv_dim": 64, "block_dim": 64},
    ),
    "Falcon-H1": (
        "FalconH1Config",
        {**MAMBA, "mamba_d_ssm": 128, "mamba_n_groups": 1, "lm_head_multiplier": 0.5, "embedding_multiplier": 2.0},
    ),
    "Granite 4": (
        "GraniteMoeHybridConfig",
        {
            **MAMBA, "layer_types": ["mamba", "attention"], "num_local_experts": 0, "num_experts_per_tok": 0,
            "shared_intermediate_size": 96, "logits_scaling": 4.0,
        },
    ),
    "Llama 4": (
        "Llama4TextConfig",
        {
            "attention_chunk_size": 16, "moe_layers": [], "interleave_moe_layer_step": 0, "num_local_experts": 1,
            "intermediate_size_mlp": 96, "no_rope_layers": [1, 0],
        },
    ),
    "Nemotron-H": (
        "NemotronHConfig",
        {
            "hybrid_override_pattern": "M-*-", "num_hidden_layers": 4, "mamba_num_heads": 4, "mamba_head_dim": 16,
            "ssm_state_size": 16, "n_groups": 1, "chunk_size": 16,
            "time_step_min": 1e-9,  # which bounds time steps in transformers, and not in vLLM
        },
    ),
    "Mamba 2": (
        "Mamba2Config",
        {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 16, "expand": 2},
    ),
    "Bloom": ("BloomConfig", {"n_layer": 2, "n_head": 2}),
    "GPT-OSS": ("GptOssConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, **MIXED}),
    "Qwen3-Next": ("Qwen3NextConfig", {**GATED_DELTA, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "Qwen3.5 MoE": ("Qwen3_5MoeTextConfig", {**GATED_DELTA, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "LFM2-MoE": (
        "Lfm2MoeConfig",
        {**EXPERTS, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1, "routed_scaling_factor": 1.5},
    ),
    "Granite 4 MoE": (
        "GraniteMoeHybridConfig",
        {
            **MAMBA, "layer_types": ["mamba", "attention"], "num_local_experts": 4, "num_experts_per_tok": 2,
            "shared_intermediate_size": 96, "logits_scaling": 4.0,
        },
    ),
    "Nemotron-H MoE": (
        "NemotronHConfig",
        {
            "hybrid_override_pattern": "ME*E", "num_hidden_layers": 4, "mamba_num_heads": 4, "mamba_head_dim": 16,
            "ssm_state_size": 16, "n_groups": 1, "chunk_size": 16, "time_step_min": 1e-9, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32,
            "routed_scaling_factor": 1.5,
        },
    ),
    "Kimi Linear": (
        "KimiLinearConfig",
        {
            "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
            **LATENT, "q_lora_rank": None, "layer_types": ["linear_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse"], "linear_head_dim": 16, "linear_num_heads": 2,
        },
    ),
    "Llama 4 MoE": (
        "Llama4TextConfig",
        {
            "attention_chunk_size": 128, "interleave_moe_layer_step": 1, "num_local_experts": 4,
            "num_experts_per_tok": 1, "intermediate_size_mlp": 96, "no_rope_layers": [1, 0],
        },
    ),
}  # fmt: skip
# A text model beside a vision tower: class, fields of the text, of the tower, of the whole.
TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "patch_size": 4,
}
QWEN_TOWER = {
    **TOWER,
    "depth": 1,
    "num_heads": 2,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0],
}
MROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]}
TOWERS = {
    "Gemma 3 with images": (
        "Gemma3Config",
        MIXED,
        {**TOWER, "image_size": 16},
        {"mm_tokens_per_image": 4},
    ),
    "Mistral 3": (
        "Mistral3Config",
        {"model_type": "mistral"},
        {**TOWER, "image_size": 16, "head_dim": 16},
        {},
    ),
    "Qwen2.5-VL": (
        "Qwen2_5_VLConfig",
        {"rope_parameters": MROPE},
        {**QWEN_TOWER, "fullatt_block_indexes": [0]},
        {},
    ),
    "Qwen3-VL": (
        "Qwen3VLConfig",
        {"rope_parameters": MROPE},
        {**QWEN_TOWER, "num_position_embeddings": 16},
        {},
    ),
    "Qwen3.5 with images": (
        "Qwen3_5Config",
        GATED_DELTA,
        {**QWEN_TOWER, "num_position_embeddings": 16},
        {},
    ),
}
REFUSED = {
    "Qwen2 with windows": (
        "Qwen2Config",
        {"use_sliding_window": True, "max_window_layers": 1, **MIXED},
    ),
}
ALL = (*TRAINED, *MIXTURES, *PLAIN, *TOWERS, *REFUSED)  # in the order of the page's table
# where published folders have another name for the model's code than transformers writes
PUBLISHED_AS = {"Phi-MoE": "PhiMoEForCausalLM"}
# what files have beside weights, of a value that computes nothing in a fresh model
BUFFERS = ("e_score_correction_bias", "expert_bias", "layer_scalar")
# weights that are 0 in a fresh model, so that what they multiply, or are added to, would not show
ZEROS = ("altup.correct_output_scale", "lm_head.bias")
# of random weights: ten times the default, so that a wrong factor moves log-probabilities by nats
SPREAD = 0.2


def family_make(folder: Path, name: str) -> Path:
    """Write the model of ``name`` as a Hugging Face folder; the same name gives the same bytes."""
    import torch
    import transformers

    from gpu_runtime.training.models.towers import auto_class

    if name in TOWERS:
        kind, text, tower, whole = TOWERS[name]
        parts = {
            "text_config": DENSE | {"initializer_range": SPREAD} | text,
            "vision_config": tower,
        }
        config = getattr(transformers, kind)(**parts, **whole, bos_token_id=0, eos_token_id=1)
    else:
        kind, fields = (TRAINED | MIXTURES | PLAIN | REFUSED)[name]
        config = getattr(transformers, kind)(**(DENSE | {"initializer_range": SPREAD} | fields))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = auto_class(config).from_config(config, dtype=torch.float32)
        for own, parameter in model.named_parameters():
            if parameter.ndim > 1 or own.endswith(ZEROS):
                torch.nn.init.normal_(parameter, std=SPREAD)
        for own, buffer in model.named_buffers():
            if own.endswith(BUFFERS):
                buffer += SPREAD * torch.randn_like(buffer)
        model.save_pretrained(folder)
    if name in PUBLISHED_AS:
        fields = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps(fields | {"architectures": [PUBLISHED_AS[name]]})
        )
    return folder
