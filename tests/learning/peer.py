"""TRL's GRPOTrainer on a task of ``tasks.py``: questions, their order, prompts, rewards and scores
are those of ours.

``run.py --trl`` starts it in ``.venv-trl`` (``tests/environments/build.py trl``). What it prints
last is one line of JSON, {"rewards": [...], "scores": [...]}, as the curve of ``run.py`` has them.
Tasks with tools are not played: TRL samples their turns in another way.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from learning.small_tasks import SMALL  # noqa: E402
from learning.tasks import TASKS, Question, Task, questions_of_steps  # noqa: E402

from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer  # noqa: E402


def main() -> None:
    """Train, and print the curve."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", choices=TASKS | SMALL)
    options.add_argument("--model", required=True)
    for name in ("seed", "steps", "every", "group", "prompts"):
        options.add_argument(f"--{name}", type=int, required=True)
    options.add_argument("--rate", type=float, required=True)
    print(json.dumps(learn(options.parse_args())), flush=True)


def learn(chosen: argparse.Namespace) -> dict[str, list]:
    """Rewards of each step, and the held-out scores with the time at which each was taken."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    task, tokenizer = (TASKS | SMALL)[chosen.task](), TransformersTokenizer(chosen.model)
    asked = [
        each
        for of_step in questions_of_steps(task, chosen.seed, chosen.steps, chosen.prompts)
        for each in of_step
    ]
    scores: list[dict[str, Any]] = []
    rewards: list[float] = []
    began = time.monotonic()

    def prompt(question: Question) -> str:
        return tokenizer.render(
            [{"role": "user", "content": question.text}],
            [],
            generation=True,
            variables={},
            now=datetime.now(tz=UTC),
        )

    def reward(completions: list[str], right: list[str], **_: Any) -> list[float]:
        given = [task.reward(text, wanted) for text, wanted in zip(completions, right, strict=True)]
        rewards.extend(given)
        return given

    class Scores(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **_):
            if state.global_step % chosen.every == 0:
                self.take(model, state.global_step)

        def on_train_end(self, args, state, control, model=None, **_):
            self.take(model, state.global_step)

        def take(self, model, step: int) -> None:
            found = score(model, tokenizer, task, [prompt(each) for each in task.held_out])
            scores.append({"step": step} | found | {"at_s": round(time.monotonic() - began, 1)})
            print(f"TRL, step {step}: {found['score']:.2f}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as output:
        arguments = GRPOConfig(
            output_dir=output, use_cpu=True, bf16=False, max_steps=chosen.steps, learning_rate=chosen.rate,
            lr_scheduler_type="constant", per_device_train_batch_size=chosen.group, seed=chosen.seed,
            gradient_accumulation_steps=chosen.prompts, num_generations=chosen.group, shuffle_dataset=False,
            max_completion_length=task.max_tokens, temperature=1.0, beta=0.0, loss_type="grpo",
            gradient_checkpointing=False, save_strategy="no", report_to="none", logging_strategy="no",
            disable_tqdm=True, model_init_kwargs={"dtype": "float32"},
        )  # fmt: skip
        data = Dataset.from_dict(
            {"prompt": [*map(prompt, asked)], "right": [each.right for each in asked]}
        )
        GRPOTrainer(
            chosen.model, reward, args=arguments, train_dataset=data, callbacks=[Scores()]
        ).train()
    size = chosen.group * chosen.prompts
    means = [sum(rewards[first : first + size]) / size for first in range(0, len(rewards), size)]
    return {"rewards": means, "scores": scores}


def score(model: Any, tokenizer: Any, task: Task, prompts: list[str]) -> dict[str, Any]:
    """The share of held-out questions that are answered right at temperature 0, all asked in one
    batch, and of those that have the answer which most have; this answer.
    """
    import torch

    rows = [tokenizer.encode(prompt) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    seen = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    with torch.no_grad():
        made = model.generate(
            ids, attention_mask=seen, max_new_tokens=task.max_tokens, do_sample=False
        )
    given = [
        tokenizer.decode(_until_end(row, model.generation_config.eos_token_id))
        for row in made[:, width:].tolist()
    ]
    right = [question.right for question in task.held_out]
    answer, many = Counter(map(task.read, given)).most_common(1)[0]
    share = sum(map(task.score, given, right)) / len(prompts)
    return {"score": share, "commonest": many / len(prompts), "answer": answer}


def _until_end(ids: list[int], ends: int | list[int]) -> list[int]:
    """The tokens of an answer with the first that ends it; padding follows."""
    known = [ends] if isinstance(ends, int) else ends
    last = next((index for index, token in enumerate(ids) if token in known), len(ids))
    return ids[: last + 1]


if __name__ == "__main__":
    main()
