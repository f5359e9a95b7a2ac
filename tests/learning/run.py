"""Whether a model learns: ``.venv/bin/python tests/learning/run.py arithmetic --seed 0 --steps 12``

Engine and trainer of the product on the bundled model; the share of right held-out answers
(temperature 0) before the first step and after every few. The curve is written as JSON to
``tests/learning/curves/``. Minutes on a CPU: for a night, not for ``make test``. ``--all`` runs
each task with seeds 0, 1 and 2, one after the other. ``--trl`` also runs TRL's GRPOTrainer on the
same questions (``peer.py``; not on the task with tools), and the curve has both; a run without it
leaves such a curve as it is. Status 0 where each task's mean score over its seeds rose. ``--smoke``
is one step of two groups on each task, and leaves no curve: status 0 where all of it ran.

Without ``--rate`` all is at the defaults of a session. The tasks of ``small_tasks.py``, which show
what the default rate does, have a curve for each rate, in ``curves/rates/``; ``--all`` is without
them. ``--option entropy_coef=0.01`` is one of a session's options for them, otherwise than by
default; ``--model`` is the folder of another model, such as ``tiny_model.py`` makes.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from learning.page import CURVES, RATES, page_write, settings_text  # noqa: E402
from learning.plot import curve_plot  # noqa: E402
from learning.small_tasks import SMALL  # noqa: E402
from learning.tasks import TASKS, Question, Task, questions_of_steps  # noqa: E402

from gpu_runtime.interfaces import SamplingOptions  # noqa: E402
from gpu_runtime.loop.advantages import group_advantages  # noqa: E402
from gpu_runtime.loop.batching import groups_trained  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer  # noqa: E402
from support.engine_loop import Loop, loop_open  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402
from tinkerscript.wire.training.defaults import config_resolve  # noqa: E402

MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
PLOTS = ROOT / "docs" / "learning"
PEER, PEER_S = ROOT / ".venv-trl" / "bin" / "python", 7200.0
SEEDS = (0, 1, 2)
EVERY_TASK = TASKS | SMALL
# of a step, printed: agreement of engine and trainer
MEASURES = ("grad_norm", "kl_engine", "clip_fraction", "entropy")
KEPT = ("grad_norm", "entropy")  # of them, in the curve
STARTED_WITH = dict(os.environ)  # without what the engine sets for its own threads


def main() -> int:
    """Run what was asked for and write a curve for each run; 0 where every task's score rose."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", nargs="?", choices=EVERY_TASK, default="arithmetic")
    options.add_argument("--all", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--every", type=int, default=4, help="steps between two scores")
    options.add_argument("--rate", type=float, help="learning rate; else the model's default")
    options.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    options.add_argument("--trl", action="store_true")
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--model", default=str(MODEL))
    chosen = options.parse_args()
    if chosen.trl and not PEER.exists():
        options.error(
            f"{PEER.relative_to(ROOT)} is missing: tests/environments/build.py trl makes it"
        )
    given = {"learning_rate": chosen.rate} if chosen.rate else {}
    others = {
        name: json.loads(value) for name, _, value in (o.partition("=") for o in chosen.option)
    }
    is_other = Path(chosen.model).resolve() != MODEL.resolve()
    if (others or is_other) and (chosen.all or chosen.task not in SMALL):
        options.error(f"--option and --model are for one of the tasks {', '.join(SMALL)}")
    if chosen.smoke:
        return asyncio.run(smoke(chosen.model))
    runs = (
        [(name, seed) for name in TASKS for seed in SEEDS]
        if chosen.all
        else [(chosen.task, chosen.seed)]
    )
    rises: dict[str, float] = {}
    for name, seed in runs:
        curve = {"task": name, "seed": seed}
        task = EVERY_TASK[name]()
        curve |= asyncio.run(
            learn(
                task,
                chosen.model,
                given | others,
                seed=seed,
                steps=chosen.steps,
                every=chosen.every,
            )
        )
        if others:
            curve["config"]["options"] = others
        if is_other:
            curve["config"]["model"] = Path(chosen.model).name
        if chosen.trl and not task.tools:
            curve["trl"] = beside(
                name, chosen.model, seed, chosen.steps, chosen.every, curve["config"]
            )
        write(curve)
        first, last = curve["scores"][0]["score"], curve["scores"][-1]["score"]
        print(f"{name}, seed {seed}: {first:.2f} -> {last:.2f}", flush=True)
        rises[name] = rises.get(name, 0.0) + last - first
    print(
        "rise of each task over its seeds:",
        {name: round(rise, 2) for name, rise in rises.items()},
        flush=True,
    )
    return 0 if all(rise > 0 for rise in rises.values()) else 1


def write(curve: dict) -> None:
    """The curve as JSON, and as a plot and a row of the manual; not over one that has a peer's
    beside it.
    """
    name = f"{curve['task']}-seed{curve['seed']}"
    if curve["task"] in SMALL:
        RATES.mkdir(exist_ok=True)
        file = RATES / f"{name}-{'-'.join(settings_text(curve['config']))}.json"
        file.write_text(json.dumps(curve) + "\n")
        page_write()
        return
    kept = CURVES / f"{name}.json"
    if "trl" not in curve and kept.exists() and "trl" in json.loads(kept.read_text()):
        print(f"{kept.name} is kept, which has TRL's curve too; --trl makes both anew", flush=True)
        return
    for file, text in (
        (CURVES / f"{name}.json", json.dumps(curve, indent=1) + "\n"), (PLOTS / f"{name}.svg", curve_plot(curve)),
    ):  # fmt: skip
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    page_write()


async def learn(
    task: Task, model: str, given: dict[str, Any], *, seed: int, steps: int, every: int
) -> dict:
    """The configuration, what was measured in each step, and the held-out scores."""
    config = SessionConfig(seed=seed, max_context_length=512, max_tokens=task.max_tokens, **given)
    tokenizer, asked = (
        TransformersTokenizer(model),
        questions_of_steps(task, seed, steps, config.tasks_per_batch),
    )
    began, scores, updates = time.monotonic(), [], 0
    taken: list[dict[str, float | None]] = []
    async with loop_open(model, config, "cpu") as loop:
        for step in range(steps + 1):
            if step % every == 0 or step == steps:
                scored = await score(loop, tokenizer, task)
                scores.append(
                    {"step": step} | scored | {"at_s": round(time.monotonic() - began, 1)}
                )
                print(
                    f"step {step}: {scored['score']:.2f} of {len(task.held_out)} held-out answers"
                    f" are right, {scored['commonest']:.2f} are {scored['answer']!r}",
                    flush=True,
                )
            if step < steps:
                taken.append(await train(loop, tokenizer, task, asked[step], updates + 1))
                updates += taken[-1]["grad_norm"] is not None
        effective = config_resolve(config, await loop.trainer.parameters())
    used = effective.model_dump(
        include={"seed", "grpo_n", "tasks_per_batch", "learning_rate", "loss", "max_tokens"}
    )
    curve = {"config": used, "held_out": len(task.held_out), "scores": scores}
    return curve | {name: [one[name] for one in taken] for name in taken[0]}


def beside(name: str, model: str, seed: int, steps: int, every: int, config: dict) -> dict:
    """The curve of TRL's GRPOTrainer with the same options."""
    given = {
        "model": model,
        "seed": seed,
        "steps": steps,
        "every": every,
        "rate": config["learning_rate"],
    }
    given |= {"group": config["grpo_n"], "prompts": config["tasks_per_batch"]}
    command = [PEER, Path(__file__).with_name("peer.py"), name]
    for option, value in given.items():
        command += [f"--{option}", str(value)]
    done = subprocess.run(
        command, env=STARTED_WITH, stdout=subprocess.PIPE, text=True, timeout=PEER_S, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


async def smoke(model: str) -> int:
    """One small step on each task, all in one session; 0, or it raises."""
    config = SessionConfig(max_context_length=512, grpo_n=2, tasks_per_batch=2, learning_rate=1e-6)
    tokenizer = TransformersTokenizer(model)
    async with loop_open(model, config, "cpu") as loop:
        for step, (name, make) in enumerate(EVERY_TASK.items(), start=1):
            task = make()
            await train(loop, tokenizer, task, task.train[:2], step)
            scored = await score(loop, tokenizer, replace(task, held_out=task.held_out[:2]))
            print(f"{name}: a step and a score ({scored['score']:.2f})", flush=True)
    return 0


@dataclass(frozen=True)
class Played:
    """One attempt: its tokens with what was sampled of them, and its answers, one a line."""

    sample: Sample
    answers: str


async def play(
    loop: Loop, tokenizer: Any, task: Task, question: Question, temperature: float
) -> Played:
    """The question's turns up to the end of its game; one turn where the task has no tools."""
    options = SamplingOptions(max_tokens=task.max_tokens, temperature=temperature)
    messages, said = [{"role": "user", "content": question.text}], task.opening
    prompt = tokenizer.render(
        messages, list(task.tools), generation=True, variables={}, now=datetime.now(tz=UTC)
    )
    ids, mask, logprobs, answers = tokenizer.encode(prompt + said), [], [], []
    while True:
        known = len(ids) - len(mask)
        mask, logprobs = [*mask, *[0] * known], [*logprobs, *[0.0] * known]
        deltas = [delta async for delta in loop.engine.generate(uuid.uuid4().hex, ids, options)]
        sampled = [token for delta in deltas for token in delta.token_ids_T]
        ids, mask = [*ids, *sampled], [*mask, *[1] * len(sampled)]
        logprobs += [logprob for delta in deltas for logprob in delta.logprobs_T]
        answers.append("".join(delta.text for delta in deltas))
        if task.tools:
            answers[-1] = answers[-1].replace("\n", " ")
        reply = task.reply("\n".join(answers), question.right)
        if reply is None:
            return Played(Sample(tuple(ids), tuple(mask), tuple(logprobs), 0.0), "\n".join(answers))
        ids += tokenizer.encode(reply)


async def train(
    loop: Loop, tokenizer: Any, task: Task, asked: list[Question], update: int
) -> dict[str, float | None]:
    """One step on ``grpo_n`` attempts at each question, the ``update``-th that changes weights:
    their mean reward, the share of answers of a question that differ (``distinct_share`` of a
    batch), the share that the commonest answer has of all, and what the step measured, None where
    there was nothing to learn.
    """
    many = loop.config.grpo_n
    played = await asyncio.gather(
        *(play(loop, tokenizer, task, each, 1.0) for each in asked for _ in range(many))
    )
    rewards = [
        task.reward(one.answers, asked[number // many].right) for number, one in enumerate(played)
    ]
    samples, spreads = [], []
    for first in range(0, len(played), many):
        of_group = rewards[first : first + many]
        different = {one.answers for one in played[first : first + many]}
        spreads.append((len(different) - 1) / (many - 1))
        advantages_G = group_advantages(of_group, normalize=loop.config.divides_by_spread)
        for one, advantage in zip(played[first : first + many], advantages_G, strict=True):
            samples.append(replace(one.sample, advantage=advantage, group=first // many))
    trained = groups_trained(samples, loop.config, update)
    samples = [sample for sample in samples if sample.group in trained]
    said, measured = "", {}
    if samples:
        measured = await loop.train(samples, update)
        await loop.hand_over(update)
        said = ", ".join(f"{name} {measured[name]:.3g}" for name in MEASURES)
    mean, distinct = statistics.fmean(rewards), statistics.fmean(spreads)
    answer, share = commonest(task, played)
    print(
        f"update {update}: mean reward {mean:.2f}, {distinct:.2f} distinct, {share:.2f} are"
        f" {answer!r}, {len(samples)} samples with a gradient; {said}",
        flush=True,
    )
    found = {"rewards": mean, "distinct": distinct, "commonest": share}
    found |= {name: measured.get(name) for name in KEPT}
    return {name: value and round(value, 4) for name, value in found.items()}


async def score(loop: Loop, tokenizer: Any, task: Task) -> dict[str, Any]:
    """The share of held-out questions that are answered right at temperature 0, and of those that
    have the answer which most have; this answer.
    """
    played = await asyncio.gather(
        *(play(loop, tokenizer, task, each, 0.0) for each in task.held_out)
    )
    right = [
        task.score(one.answers, each.right) for one, each in zip(played, task.held_out, strict=True)
    ]
    answer, share = commonest(task, played)
    return {"score": sum(right) / len(right), "commonest": share, "answer": answer}


def commonest(task: Task, played: list[Played]) -> tuple[str, float]:
    """The answer that most attempts gave, as the reward reads it, and the share of those."""
    answer, many = Counter(task.read(one.answers) for one in played).most_common(1)[0]
    return answer, many / len(played)


if __name__ == "__main__":
    sys.exit(main())
