"""A tiny real model that tests make themselves: Llama-shaped, a tokenizer of characters, a chat
template.
"""

from pathlib import Path

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_model_make(
    folder: Path, *, seed: int = 0, special_tokens: tuple[str, ...] = (), heads: tuple[int, int] = (2, 1),
    hidden: int = 64, intermediate: int = 128, layers: int = 2,
) -> Path:  # fmt: skip
    """Write a Hugging Face folder; the same seed gives the same bytes. Heads of 32: vLLM's CPU
    attention has no 16. ``special_tokens`` are further ones, after the characters; ``heads`` are of
    queries and of keys; a layer has 3 weights for each unit of ``hidden`` and of ``intermediate``,
    and few others.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokens = ["<|im_start|>", "<|im_end|>", "\n", *map(chr, range(32, 127)), *special_tokens]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>", *special_tokens],
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokens), hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads[0], num_key_value_heads=heads[1], head_dim=32, max_position_embeddings=1024,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder
