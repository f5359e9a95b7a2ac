"""The tokenizer of a Hugging Face folder in a GGUF file: byte-level BPE whose way of splitting text
llama.cpp knows.
"""

from pathlib import Path

import gguf

from tinkerscript.errors import InvalidRequest

from .folder_files import Json, json_read

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| "
    r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# By what tokenizer.json says of splitting (with the options that change it): the name that
# llama.cpp has for it.
SPLITS = {
    ("Digits", "ByteLevel True"): "smollm",
    (f"Split {QWEN2}", "ByteLevel False"): "qwen2",
    (f"Split {LLAMA3}", "ByteLevel False"): "llama-bpe",
}


def tokenizer_write(writer: gguf.GGUFWriter, folder: Path, config: Json) -> None:
    """Tokens, merges, special tokens and the chat template. Raises InvalidRequest for another kind
    of tokenizer.
    """
    tokenizer = json_read(folder / "tokenizer.json")
    model = tokenizer["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        raise InvalidRequest("Only tokenizers of byte-level BPE are written as GGUF.")
    splits = _splits(tokenizer)
    if splits not in SPLITS:
        raise InvalidRequest(
            "This tokenizer splits text in a way that is not written as GGUF.",
            hint=f"It has {splits}.",
        )
    if tokenizer.get("normalizer") not in (None, {"type": "NFC"}):
        raise InvalidRequest(
            "This tokenizer changes text before it splits it: that is not written as GGUF."
        )
    tokens = [f"[PAD{number}]" for number in range(config["vocab_size"])]
    kinds = [gguf.TokenType.UNUSED] * len(tokens)
    named = [(number, token, gguf.TokenType.NORMAL) for token, number in model["vocab"].items()]
    for added in tokenizer.get("added_tokens", []):
        kind = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        named.append((added["id"], added["content"], kind))
    for number, token, kind in named:
        if not 0 <= number < len(tokens):
            raise InvalidRequest(
                f"The token {token!r} has the id {number}, and the model has {len(tokens)} ids "
                "(vocab_size): "
                "that is not written as GGUF."
            )
        tokens[number], kinds[number] = token, kind
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(SPLITS[splits])
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    gguf.SpecialVocab(folder, load_merges=True, n_vocab=len(tokens)).add_to_gguf(writer)
    writer.add_add_bos_token(_begins_with_bos(tokenizer))


def _begins_with_bos(tokenizer: Json) -> bool:
    processor = tokenizer.get("post_processor") or {}
    steps = processor.get("processors", [processor])
    return any("SpecialToken" in part for step in steps for part in step.get("single", [])[:1])


def _splits(tokenizer: Json) -> tuple[str, ...]:
    pre = tokenizer.get("pre_tokenizer") or {}
    return tuple(_named(step) for step in pre.get("pretokenizers", [pre]))


def _named(step: Json) -> str:
    match step:
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": use}:
            return f"ByteLevel {use}"
        case {"type": "Digits", "individual_digits": True}:
            return "Digits"
        case {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }:
            return f"Split {pattern}"
    return f"{step.get('type', 'nothing')} with other options"
