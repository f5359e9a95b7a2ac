"""Whether the samples of a model can share their prefixes while they are trained, from its
configuration.

Attention over a tree of tokens computes what samples have in common once. A layer that mixes tokens
in another way (state space, linear attention, convolution, chunks) has to read each timeline whole.
What is chosen here is proven on the model itself (``model_check.py`` of ``gpu_runtime``).
"""

from typing import Any

# Of ``layer_types``, in the words of transformers 4 and 5; of the MLP, which mixes no tokens, two.
TREE_LAYERS = {"full_attention", "sliding_attention", "attention", "sparse", "dense"}
LAYER_LISTS = ("layer_types", "layers_block_type", "block_types", "attn_type_list")
# Fields that only families with other layers have.
FIELDS = {
    "attention_chunk_size": "attention in chunks",
    "use_bidirectional_attention": "attention to later tokens",
    "ssm_cfg": "state space layers",
    "ssm_state_size": "state space layers",
    "mamba_d_state": "state space layers",
    "hybrid_override_pattern": "state space layers",
    "lru_width": "recurrent layers",
    "linear_num_value_heads": "linear attention layers",
    "linear_attn_config": "linear attention layers",
    "conv_L_cache": "convolution layers",
    "index_topk": "attention to chosen tokens",
}


def prefixes_apart(fields: dict[str, Any]) -> str | None:
    """Why each timeline of a model with these fields is computed whole; None where its attention
    can share prefixes. ``fields`` are those of config.json, the text part's own among them."""
    for name in LAYER_LISTS:
        others = sorted({str(kind) for kind in fields.get(name) or ()} - TREE_LAYERS)
        if others:
            return f"{name} has {', '.join(others)}"
    for name, what in FIELDS.items():
        if value := fields.get(name):
            return f"{name} is {value}: {what}"
    return None


def apart_words(why: str, grpo_n: int | None) -> str:
    """What a plan and its page say of it; without groups of ``grpo_n`` it is about a client's
    data.
    """
    cost = "what several data have in common is computed for each of them"
    if grpo_n is not None:
        cost = (
            f"the {grpo_n} episodes of a group compute their common prompt {grpo_n} times, and "
            "not once"
        )
    return f"Prefixes are not shared ({why}). Each timeline passes through the model whole: {cost}."
