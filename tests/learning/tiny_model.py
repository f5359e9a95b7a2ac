"""A tiny model that knows the form of some small tasks, and a right answer now and then:
``.venv/bin/python tests/learning/tiny_model.py .data/models/tiny``

A Llama of 7M weights with the tokenizer of the bundled model, trained from nothing by
cross-entropy. Of what it is shown ``RIGHT`` is right, and the rest are right answers to other
questions; no question is one that is held out. ``run.py --model .data/models/tiny`` then shows
what a session's defaults make of a model of another size. Two minutes on two cores.
"""

import random
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from learning.run import MODEL  # noqa: E402
from learning.small_tasks import SMALL  # noqa: E402

from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer  # noqa: E402

TASKS = ("last_word", "letters", "odd_word", "largest")
RIGHT, SHOWN, STEPS, RATE = 0.3, 64, 400, 1e-3


def main(folder: Path) -> None:
    """Train it, and write it as a folder of transformers."""
    torch.manual_seed(0)
    rng = random.Random(0)
    words, tokenizer = AutoTokenizer.from_pretrained(MODEL), TransformersTokenizer(str(MODEL))
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=2048, tie_word_embeddings=True,
        bos_token_id=words.bos_token_id, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    tasks = [SMALL[name]().train for name in TASKS]
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 40) * (1 - step / STEPS)
        shown = [_shown(rng, rng.choice(tasks), tokenizer) for _ in range(SHOWN)]
        loss = _loss(model, shown, words.pad_token_id)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step}: {loss.item():.2f} nats a token of an answer", flush=True)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def _shown(
    rng: random.Random, questions: list, tokenizer: TransformersTokenizer
) -> tuple[list[int], list[int]]:
    """The ids of a question and of what is answered."""
    asked = rng.choice(questions)
    said = (asked if rng.random() < RIGHT else rng.choice(questions)).right
    prompt = tokenizer.render(
        [{"role": "user", "content": asked.text}],
        [],
        generation=True,
        variables={},
        now=datetime.now(tz=UTC),
    )
    return tokenizer.encode(prompt), tokenizer.encode(f"{said}<|im_end|>")


def _loss(
    model: LlamaForCausalLM, shown: list[tuple[list[int], list[int]]], padding: int
) -> torch.Tensor:
    """Cross-entropy of the answers' tokens (nats), a mean over all of them."""
    longest = max(len(question) + len(answer) for question, answer in shown)
    ids, answers = torch.full((len(shown), longest), padding), torch.zeros(len(shown), longest)
    for row, (question, answer) in enumerate(shown):
        ids[row, : len(question) + len(answer)] = torch.tensor([*question, *answer])
        answers[row, len(question) : len(question) + len(answer)] = 1
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    is_answer = answers[:, 1:] > 0
    return torch.nn.functional.cross_entropy(
        model.lm_head(hidden[is_answer]), ids[:, 1:][is_answer]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
