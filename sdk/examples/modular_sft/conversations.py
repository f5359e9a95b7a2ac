"""Conversations from JSON lines, and the training data that they become: one datum for each reply
of the assistant.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tinker import types
from transformers import AutoTokenizer

Conversation = list[dict[str, str]]


def conversations_read(path: Path) -> dict[str, list[Conversation]]:
    """Rows ``{"messages": [...], "split": "train" or "test"}`` by split; where no row has a split,
    every tenth is held out. Raises SystemExit that names a missing file, the line of a bad row, or
    an empty split.
    """
    if not path.is_file():
        raise SystemExit(f"The dataset {path} does not exist.")
    splits: dict[str, list[Conversation]] = {"train": [], "test": []}
    rows = [
        row_read(line, f"{path}:{number}")
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1)
        if line.strip()
    ]
    has_splits = any("split" in row for row in rows)
    for number, row in enumerate(rows):
        split = row.get("split", "train") if has_splits else "test" if number % 10 == 9 else "train"
        if split not in splits:
            raise SystemExit(f'{path}: the split {split!r} is neither "train" nor "test".')
        splits[split].append(row["messages"])
    for split, conversations in splits.items():
        if not conversations:
            raise SystemExit(f"{path} has no rows of the split {split!r}.")
    return splits


def row_read(line: str, where: str) -> dict[str, Any]:
    """A row whose messages end with the assistant's."""
    try:
        row = json.loads(line)
        messages = row["messages"]
        if not all(isinstance(m["role"], str) and isinstance(m["content"], str) for m in messages):
            raise TypeError("role and content have to be text")
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("the last message has to be the assistant's")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SystemExit(f"{where} is no conversation: {type(error).__name__}: {error}") from None
    return row


def tokenizer_load(name: str) -> Any:
    """The tokenizer of a folder or a Hugging Face id; it has to have a chat template."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"No tokenizer {name!r}, give a folder or a Hugging Face id: {error}"
        ) from None
    if not tokenizer.chat_template:
        raise SystemExit(f"The tokenizer {name!r} has no chat template.")
    return tokenizer


def prompt_ids(tokenizer: Any, messages: Conversation) -> list[int]:
    """The tokens up to where the assistant's next reply begins."""
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    )


def data_make(tokenizer: Any, conversation: Conversation, max_length: int) -> list[types.Datum]:
    """A datum for each reply: its tokens and its end have weight 1, the prompt before it has 0.
    Those longer than ``max_length`` tokens are left out.
    """
    data = []
    for place, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
        prompt = prompt_ids(tokenizer, conversation[:place])
        whole = list(tokenizer.apply_chat_template(conversation[: place + 1], return_dict=False))
        if whole[: len(prompt)] != prompt:
            raise SystemExit(
                "This chat template writes a prompt anew once it has its reply: it cannot be "
                "trained here."
            )
        while (
            whole[-1] != tokenizer.eos_token_id and tokenizer.eos_token_id in whole[len(prompt) :]
        ):
            whole.pop()  # a template's line break after the end of the turn, which is never sampled
        if len(whole) <= max_length:
            data.append(datum(whole, len(prompt)))
    return data


def datum(ids: list[int], prompt_length: int) -> types.Datum:
    weights = np.array(
        [0.0] * (prompt_length - 1) + [1.0] * (len(ids) - prompt_length), dtype=np.float32
    )
    inputs = {
        "target_tokens": types.TensorData.from_numpy(np.array(ids[1:], dtype=np.int64)),
        "weights": types.TensorData.from_numpy(weights),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)
