"""The tokenizer of a Hugging Face folder in a GGUF file: byte-level BPE whose way of splitting text
llama.cpp knows, or the BPE of Gemma, over characters.

llama.cpp has two forms for Gemma's: "llama" merges by the score of what comes of it, "gemma4" by
the rank of the pair, as the `tokenizers` package does. The second is written.
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

# Before a chat template: where a file names no bos llama.cpp takes the token 11.
NO_BOS = "{%- set bos_token = '' -%}"
BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
GEMMA_NORMALIZER = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
GEMMA_SPLIT = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}


def tokenizer_write(writer: gguf.GGUFWriter, folder: Path, config: Json) -> None:
    """Tokens, merges, special tokens and the chat template. Raises InvalidRequest for another kind
    of tokenizer.
    """
    tokenizer = json_read(folder / "tokenizer.json")
    model = tokenizer["model"]
    if model.get("type") != "BPE":
        raise InvalidRequest(
            "Only tokenizers of byte-level BPE, or of Gemma's, are written as GGUF."
        )
    is_gemma = bool(model.get("byte_fallback"))
    form, split = _gemma(tokenizer) if is_gemma else _byte_level(tokenizer)
    tokens = [f"[PAD{number}]" for number in range(config["vocab_size"])]
    kinds = [gguf.TokenType.UNUSED] * len(tokens)
    normal = gguf.TokenType.NORMAL
    named = [(number, token, normal) for token, number in model["vocab"].items()]
    if is_gemma:
        named += [(model["vocab"][token], token, gguf.TokenType.BYTE) for token in BYTES]
    for added in tokenizer.get("added_tokens", []):
        kind = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        if is_gemma and BLANK in added["content"] and not added["special"]:
            kind = normal  # a run of blanks, which comes of merges, and is text with blanks again
        named.append((added["id"], added["content"], kind))
    for number, token, kind in named:
        if not 0 <= number < len(tokens):
            raise InvalidRequest(
                f"The token {token!r} has the id {number}, and the model has {len(tokens)} ids "
                "(vocab_size): "
                "that is not written as GGUF."
            )
        tokens[number], kinds[number] = token, kind
    writer.add_tokenizer_model(form)
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    special = gguf.SpecialVocab(folder, load_merges=True, n_vocab=len(tokens))
    if "bos" not in special.special_token_ids and isinstance(special.chat_template, str):
        special.chat_template = NO_BOS + special.chat_template
    special.add_to_gguf(writer)
    writer.add_add_bos_token(_begins_with_bos(tokenizer))


def _byte_level(tokenizer: Json) -> tuple[str, str]:
    """What llama.cpp calls this kind of tokenizer, and its way of splitting text."""
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
    return "gpt2", SPLITS[splits]


def _gemma(tokenizer: Json) -> tuple[str, str]:
    """As ``_byte_level``. llama.cpp splits at line ends: no merge may join one with other text."""
    vocab, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    # a pair, or of older versions its halves with a blank between them
    joined = ["".join(merge).replace(" ", "") for merge in merges]
    unlike = {
        "how it changes text": tokenizer.get("normalizer") != GEMMA_NORMALIZER,
        "how it splits text": tokenizer.get("pre_tokenizer") not in (None, GEMMA_SPLIT),
        "no bos before a text": not _begins_with_bos(tokenizer),
        "bytes that have no token": not vocab.keys() >= set(BYTES),
        "line ends within tokens": any("\n" in token and token.strip("\n") for token in joined),
    }
    if any(unlike.values()):
        hint = f"It differs from Gemma's: {', '.join(name for name in unlike if unlike[name])}."
        raise InvalidRequest("This tokenizer is not written as GGUF.", hint=hint)
    return "gemma4", "gemma4"


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
