"""Plays the held-out conversations with the base model and with the checkpoint, and compares the
last replies.
"""

import json
from pathlib import Path
from typing import Any

import tinker
from conversations import Conversation, prompt_ids
from experiments import Experiment
from tinker import types


def evaluate(
    experiment: Experiment,
    service: tinker.ServiceClient,
    tokenizer: Any,
    held_out: list[Conversation],
    checkpoint: dict[str, Any],
    folder: Path,
) -> dict[str, float]:
    """Shares of held-out replies that are the expected ones, word for word. The replies go to
    replies.jsonl.
    """
    samplers = {
        "base": service.create_sampling_client(base_model=experiment.base_model).result(),
        "tuned": service.create_sampling_client(model_path=checkpoint["sampler"]).result(),
    }
    replies = {
        name: replies_sample(sampler, tokenizer, held_out, experiment.max_reply)
        for name, sampler in samplers.items()
    }
    expected = [chat[-1]["content"] for chat in held_out]
    with (folder / "replies.jsonl").open("w") as file:
        for at, chat in enumerate(held_out):
            said = {name: found[at] for name, found in replies.items()}
            file.write(json.dumps({"messages": chat[:-1], "expected": expected[at]} | said) + "\n")
    return {
        name: sum(
            reply.strip() == right.strip() for reply, right in zip(found, expected, strict=True)
        )
        / len(expected)
        for name, found in replies.items()
    }


def replies_sample(
    sampler: tinker.SamplingClient, tokenizer: Any, chats: list[Conversation], max_tokens: int
) -> list[str]:
    """The most likely reply to each conversation's last question; all are asked side by side."""
    params = types.SamplingParams(max_tokens=max_tokens, temperature=0.0)
    waiting = [
        sampler.sample(types.ModelInput.from_ints(prompt_ids(tokenizer, chat[:-1])), 1, params)
        for chat in chats
    ]
    return [
        tokenizer.decode(each.result().sequences[0].tokens, skip_special_tokens=True)
        for each in waiting
    ]
