"""A small tokenizer in the form of Gemma's: characters, blanks as marks, and bytes for what has no
token.
"""

import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from support.tiny_tokenizers import CORPUS

BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
SPECIAL += ["<|im_start|>", "<|im_end|>"]
# Tokens that are added and have no merges, as Gemma's marks of HTML and runs of line ends, and a
# run of blanks, which has them.
ADDED = ["\n\n", "\n\n\n", "<table>", 2 * BLANK]


def build_gemma_tokenizer(folder: Path, template: str, end_of_turn: str) -> Path:
    """Saved in ``folder`` as transformers saves one."""
    learning = Tokenizer(models.BPE())
    learning.normalizer = normalizers.Replace(" ", BLANK)
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, show_progress=False, max_token_length=9
    )
    texts = [*CORPUS, "a  b   c    d  e", "12345 99 100 2024"]
    learning.train_from_iterator(texts, trainer)
    learnt = json.loads(learning.to_str())["model"]
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + ["\n"]
    vocab = learnt["vocab"] | {token: len(learnt["vocab"]) + n for n, token in enumerate(tokens)}
    merges = [tuple(pair) for pair in learnt["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = learning.normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ADDED])
    tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", vocab["<bos>"])]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token=end_of_turn, pad_token="<pad>"
    )
    fast.chat_template = template
    fast.save_pretrained(folder)
    return folder
