"""A tiny model that knows the form of the small tasks, and a right answer now and then:
``.venv/bin/python tests/learning/tiny_model.py .data/models/tiny``

A Llama of 7M weights with the tokenizer of the bundled model, trained from nothing by
cross-entropy. Of what it is shown ``RIGHT`` is right, and the rest are right answers to other
questions of the task; no question is one that is held out, and it is too small to answer those.
``run.py --model .data/models/tiny`` then shows what a session's defaults make of a model of another
size. Four to six minutes on two cores.
"""

import json
import random
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from learning.run import MODEL  # noqa: E402
from learning.small_tasks import SMALL  # noqa: E402
from learning.tasks import Question, Task  # noqa: E402

from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer  # noqa: E402

RIGHT, SHOWN, STEPS, RATE = 0.3, 64, 600, 1e-3
Row = list[tuple[list[int], bool]]  # part by part: its ids, and whether they are said


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
    tasks = {name: make() for name, make in SMALL.items()}
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 40) * (1 - step / STEPS)
        name = rng.choice([*tasks])
        rows = [_row(rng, name, tasks[name], tokenizer) for _ in range(SHOWN)]
        loss = _loss(model, rows, words.pad_token_id)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step}: {loss.item():.2f} nats a token of {name}", flush=True)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def _row(rng: random.Random, name: str, task: Task, tokenizer: TransformersTokenizer) -> Row:
    """A question and what is said to it, turn by turn, as a session has them."""
    asked = rng.choice(task.train)
    answers = _said(name, asked if rng.random() < RIGHT else rng.choice(task.train))
    prompt = tokenizer.render(
        [{"role": "user", "content": asked.text}], list(task.tools), generation=True, variables={},
        now=datetime.now(tz=UTC),
    )  # fmt: skip
    row: Row = [(tokenizer.encode(prompt + task.opening), False)]
    for number, answer in enumerate(answers, start=1):
        row.append((tokenizer.encode(f"{answer}<|im_end|>"), True))
        reply = task.reply("\n".join(answers[:number]), asked.right)
        if reply is not None:
            row.append((tokenizer.encode(reply), False))
    return row


def _said(name: str, asked: Question) -> list[str]:
    """The right answer to a question, one for each turn."""
    if name == "keys":
        return [json.dumps(dict.fromkeys(json.loads(asked.right), "a"))]
    if name == "calculator":
        call = " + ".join(re.findall(r"\d+", asked.text))
        return [f'{call}"}}}}]</tool_call>', asked.right]
    return [asked.right]


def _loss(model: LlamaForCausalLM, rows: list[Row], padding: int) -> torch.Tensor:
    """Cross-entropy of the answers' tokens (nats), a mean over all of them."""
    longest = max(sum(len(ids) for ids, _ in row) for row in rows)
    ids_RT, is_said_RT = torch.full((len(rows), longest), padding), torch.zeros(len(rows), longest)
    for number, row in enumerate(rows):
        ids = [token for part, _ in row for token in part]
        is_said = [said for part, said in row for _ in part]
        ids_RT[number, : len(ids)] = torch.tensor(ids)
        is_said_RT[number, : len(ids)] = torch.tensor(is_said, dtype=torch.float32)
    hidden_RTH = model.model(input_ids=ids_RT).last_hidden_state[:, :-1]
    said = is_said_RT[:, 1:] > 0
    return torch.nn.functional.cross_entropy(model.lm_head(hidden_RTH[said]), ids_RT[:, 1:][said])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
