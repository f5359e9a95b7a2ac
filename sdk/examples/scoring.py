"""Scores a downloaded model with nothing of ours: transformers loads the folder and answers greedily."""

from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def score_folder(
    folder: Path, questions: list[tuple[list[dict[str, str]], str]], is_right: Callable[[str, str], bool]
) -> float:
    """Share of ``(messages, label)`` that the model in ``folder`` answers rightly."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    right = 0
    for messages, label in questions:
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.no_grad():
            output = model.generate(**prompt, max_new_tokens=8, do_sample=False)
        answer = tokenizer.decode(output[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        right += is_right(answer, label)
    return right / len(questions)
