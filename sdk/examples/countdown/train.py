"""Countdown: reach a target number from three given ones by + - * and /. The tasks are made here,
with a held-out part.

``python train.py`` trains; ``--smoke`` plays a few games to see that everything is connected.
"""

import argparse
import ast
import operator
import random
from fractions import Fraction

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check

BASE_MODEL = "SmolLM2-135M-Instruct"
SIGNS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
Task = dict[str, list[int] | int]


def tasks_make(count: int, seed: int = 0) -> list[Task]:
    """``count`` different tasks that can be solved: {"numbers": [2, 5, 7], "target": 17}."""
    chance, made = random.Random(seed), {}
    while len(made) < count:
        a, b, c = numbers = [chance.randint(1, 9) for _ in range(3)]
        target = chance.choice([a + b + c, a * b + c, a * b - c, (a + b) * c, a + b - c])
        if 0 < target < 100:
            made[(*sorted(numbers), target)] = {"numbers": sorted(numbers), "target": target}
    return list(made.values())


def agent(task: Task, episode) -> WorkflowOutput:
    """One question, one answer. 1 for the target, 0.1 for another value of the right numbers, else
    0.
    """
    asked = (
        f"Use the numbers {task['numbers']}, each once, with + - "
        f"* / to make {task['target']}. Reply with the sum only."
    )
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model, messages=[{"role": "user", "content": asked}], max_tokens=24
        )
    value = value_of(reply.choices[0].message.content or "", task["numbers"])
    solved = value == task["target"]
    return WorkflowOutput(
        reward=1.0 if solved else 0.1 if value is not None else 0.0, is_success=solved
    )


def value_of(said: str, numbers: list[int]) -> Fraction | None:
    """The exact value of an expression that uses each number once; None for anything else."""
    try:
        tree = ast.parse(said.strip().split("=")[0].strip(), mode="eval").body
        used: list[int] = []
        value = _value(tree, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return value if sorted(used) == sorted(numbers) else None


def _value(node: ast.expr, used: list[int]) -> Fraction:
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        return SIGNS[type(node.op)](_value(node.left, used), _value(node.right, used))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    raise ValueError("no sum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="four tasks, one step")
    arguments = parser.parse_args()
    png_check()
    tasks = tasks_make(5 if arguments.smoke else 96)
    held_out, train = tasks[: 1 if arguments.smoke else 32], tasks[1 if arguments.smoke else 32 :]
    with TinkerScript(
        arguments.base_model,
        name="countdown",
        grpo_n=4 if arguments.smoke else 8,
        tasks_per_batch=4 if arguments.smoke else 8,
        learning_rate=3e-5,
        max_context_length=256,
        max_tokens=24,
        seed=arguments.seed,
    ) as session:
        report = session.rollouts(
            agent,
            train,
            epochs=1 if arguments.smoke else arguments.epochs,
            evaluate_every=4,
            eval_tasks=held_out,
            report_to="countdown.jsonl",
        )
        tuned = session.download_tuned_model("countdown-model")
        print(session.plot("countdown.png"))
    for evaluated in report.evaluations:
        print(f"held out after {evaluated.step} steps: {evaluated.report.success_rate:.0%} solved")
    first, last = (report.evaluations[at].report.success_rate for at in (0, -1))
    print(f"held out, solved: {first:.0%} before, {last:.0%} after; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
