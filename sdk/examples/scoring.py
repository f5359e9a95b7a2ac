"""Scores a downloaded model with nothing of ours: transformers loads the folder and generates
greedily.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging


def score_folder(
    folder: Path,
    questions: list[tuple[list[dict[str, str]], str]],
    is_right: Callable[[str, str], bool],
    max_tokens: int,
) -> float:
    """Share of ``(messages, label)`` that the model in ``folder`` answers rightly."""
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = tokenizer.apply_chat_template(
        [messages for messages, _ in questions],
        add_generation_prompt=True,
        padding=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.no_grad():
        output = model.generate(**prompts, max_new_tokens=max_tokens, do_sample=False)
    answers = tokenizer.batch_decode(
        output[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True
    )
    return sum(
        is_right(answer, label) for answer, (_, label) in zip(answers, questions, strict=True)
    ) / len(questions)
