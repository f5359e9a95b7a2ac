"""Whether a model learns: ``.venv/bin/python tests/learning/run.py arithmetic --seed 0 --steps 12``

Engine and trainer of the product on the bundled model; the share of right held-out answers (temperature 0) before the
first step and after every few. The curve is written as JSON to ``tests/learning/curves/``. Minutes on a CPU: for a
night, not for ``make test``. ``--all`` runs each task with seeds 0, 1 and 2, one after the other.
"""

import argparse
import asyncio
import json
import random
import sys
import time
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from learning.tasks import TASKS, Question, Task  # noqa: E402

from gpu_runtime.interfaces import SamplingOptions  # noqa: E402
from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer  # noqa: E402
from support.engine_loop import Loop, loop_open  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
CURVES = Path(__file__).with_name("curves")
SEEDS = (0, 1, 2)


def main() -> int:
    """Run what was asked for and write a curve for each run; 0 where every score rose."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", nargs="?", choices=TASKS, default="arithmetic")
    options.add_argument("--all", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--every", type=int, default=4, help="steps between two scores")
    options.add_argument("--model", default=str(MODEL))
    chosen = options.parse_args()
    runs = [(name, seed) for name in TASKS for seed in SEEDS] if chosen.all else [(chosen.task, chosen.seed)]
    rose = True
    for name, seed in runs:
        curve = asyncio.run(learn(TASKS[name](), chosen.model, seed=seed, steps=chosen.steps, every=chosen.every))
        CURVES.mkdir(exist_ok=True)
        path = CURVES / f"{name}-seed{seed}.json"
        path.write_text(json.dumps({"task": name, "seed": seed} | curve, indent=1) + "\n")
        first, last = curve["scores"][0]["score"], curve["scores"][-1]["score"]
        print(f"{path.name}: {first:.2f} -> {last:.2f}", flush=True)
        rose = rose and last > first
    return 0 if rose else 1


async def learn(task: Task, model: str, *, seed: int, steps: int, every: int) -> dict:
    """The configuration, the mean reward of each step, and the held-out scores."""
    config = SessionConfig(seed=seed, max_context_length=256, max_tokens=task.max_tokens, learning_rate=3e-5)
    tokenizer, rng = TransformersTokenizer(model), random.Random(seed)
    began, rewards, scores = time.monotonic(), [], []
    async with loop_open(model, config, "cpu") as loop:
        for step in range(steps + 1):
            if step % every == 0 or step == steps:
                share = await score(loop, tokenizer, task)
                scores.append({"step": step, "score": share, "at_s": round(time.monotonic() - began, 1)})
                print(f"step {step}: {share:.2f} of {len(task.held_out)} held-out answers are right", flush=True)
            if step < steps:
                asked = rng.sample(task.train, config.tasks_per_batch)
                rewards.append(await train(loop, tokenizer, task, asked, step + 1))
    used = config.model_dump(include={"seed", "grpo_n", "tasks_per_batch", "learning_rate", "loss", "max_tokens"})
    return {"config": used, "held_out": len(task.held_out), "rewards": rewards, "scores": scores}


async def train(loop: Loop, tokenizer: Any, task: Task, asked: list[Question], step: int) -> float:
    """One step on ``grpo_n`` answers to each question; their mean reward."""
    options = SamplingOptions(max_tokens=task.max_tokens, temperature=1.0)
    rollouts = await asyncio.gather(
        *(loop.rollout([prompt_of(tokenizer, each)], options, partial(task.reward, right=each.right)) for each in asked)
    )
    samples = [
        replace(sample, group=group)
        for group, (of_group, _) in enumerate(rollouts)
        for sample in of_group
        if any(each.has_signal for each in of_group)
    ]
    if samples:
        await loop.train(samples, step)
        await loop.hand_over(step)
    mean = sum(of_group for _, of_group in rollouts) / len(asked)
    print(f"step {step}: mean reward {mean:.2f}, {len(samples)} samples with a gradient", flush=True)
    return mean


async def score(loop: Loop, tokenizer: Any, task: Task) -> float:
    """The share of held-out questions that are answered right at temperature 0."""
    options = SamplingOptions(max_tokens=task.max_tokens, temperature=0.0)
    texts = await asyncio.gather(*(answer(loop, prompt_of(tokenizer, each), options) for each in task.held_out))
    return sum(task.score(text, each.right) for text, each in zip(texts, task.held_out, strict=True)) / len(texts)


async def answer(loop: Loop, prompt: list[int], options: SamplingOptions) -> str:
    """One answer's text."""
    return "".join([delta.text async for delta in loop.engine.generate(uuid.uuid4().hex, prompt, options)])


def prompt_of(tokenizer: Any, question: Question) -> list[int]:
    """The question as the model's template writes it."""
    text = tokenizer.render([{"role": "user", "content": question.text}], [], generation=True, variables={})
    return tokenizer.encode(text)


if __name__ == "__main__":
    sys.exit(main())
