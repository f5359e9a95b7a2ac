"""What a model was trained with, as its folder records it: theta, ids of texts, a conversation.

A trainer writes it beside an exported model; ``tinkerscript verify FOLDER`` compares what the
folder's own files make of the same texts, with whichever libraries are there.
"""

import hashlib
from pathlib import Path
from typing import Any

NAME = "tinkerscript.json"
FROZEN = "model-frozen.safetensors"  # weights that no training changes: of a vision tower
TEXTS = (
    "hello",
    "  Was ist 12345 + 0.5?\n\n\tÜber 日本語 \U0001f600",
    "def f(x):\n    return x ** 2  # <b>\n",
)
CONVERSATION = [
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "four"},
    {"role": "user", "content": "And 3?"},
]
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tekken.json",
)
WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json")


def proof_of(tokenizer: Any, config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Of a transformers ``tokenizer``, of the content of ``config.json``, and of the files in
    ``folder``."""
    return {
        "theta": thetas(config),
        "texts": [{"text": text, "ids": ids_of(tokenizer, text)} for text in TEXTS],
        "conversation": {"messages": CONVERSATION, "text": written(tokenizer, CONVERSATION)},
        "files": digests(folder),
    }


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """Without what a tokenizer puts around plain text."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def written(tokenizer: Any, messages: list[dict[str, str]]) -> str | None:
    """As the chat template writes ``messages``; None without a template, and where it writes the
    date."""
    template = getattr(tokenizer, "chat_template", None)
    if not isinstance(template, str) or "strftime_now" in template:
        return None
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the tokenizer's files in ``folder`` and of all weights: of what was trained."""
    found = {}
    for pattern in (*TOKENIZER_FILES, *WEIGHT_FILES):
        for path in filter(Path.is_file, folder.glob(pattern)):
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def thetas(config: dict[str, Any]) -> dict[str, float]:
    """The base of the rotary positions under each key that has one, of this configuration or of its
    text's part."""
    part = config.get("text_config")
    config = part if isinstance(part, dict) else config
    rope = config.get("rope_parameters")
    rope = rope if isinstance(rope, dict) else {}
    found = {"rope_parameters": rope.get("rope_theta"), "rope_theta": config.get("rope_theta")}
    for kind in ("full_attention", "sliding_attention"):
        if isinstance(rope.get(kind), dict):
            found[f"rope_parameters.{kind}"] = rope[kind].get("rope_theta")
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
