"""A whole GRPO step, generation + training + hand-over, against TRL's GRPOTrainer: same model,
prompts, group, lengths.

    .venv/bin/python tests/benchmarks/grpo_step.py [--prompt 256 --completion 64 --prompts 2 --group 8]

TRL runs in ``.venv-trl`` (``tests/environments/build.py trl``). Each side is a process of its own
with all cores and fp32; sides take turns, ``--rounds`` each, and the first step of every turn is
not counted. Ours is vLLM, tree-packed DeepSpeed training and the hand-over of the weights into the
engine; TRL's is its default on a machine without a GPU: ``transformers`` generation and padded
training in micro-batches of one group, without gradient checkpointing, beta 0.

Lengths are fixed for both: the model is given an end-of-turn token that it never samples.
Throughput counts sampled tokens; both sides sample and train the same number of them in a step.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
PEER = ROOT / ".venv-trl" / "bin" / "python"
WORDS = (
    "the",
    "of",
    "a",
    "in",
    "to",
    "and",
    "is",
    "was",
    "for",
    "on",
    "with",
    "as",
    "by",
    "at",
    "from",
    "it",
    "an",
    "be",
)
LEARNING_RATE, TURN_S = 1e-6, 1500


def reward(text: str) -> float:
    """Any number will do that differs between answers."""
    return text.count("e") / max(1, len(text))


def model_without_end(source: str, folder: Path) -> None:
    """The model of ``source`` with an end token that it has never seen, so that answers have a
    fixed length.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    vocabulary = json.loads((Path(source) / "config.json").read_text())["vocab_size"]
    last = min(vocabulary, len(tokenizer)) - 1
    tokenizer.eos_token = tokenizer.pad_token = tokenizer.convert_ids_to_tokens(last)
    tokenizer.save_pretrained(folder)
    for path in Path(source).iterdir():
        target = folder / path.name
        if path.name in ("config.json", "generation_config.json"):
            target.write_text(
                json.dumps(
                    json.loads(path.read_text()) | {"eos_token_id": last, "pad_token_id": last}
                )
            )
        elif not target.exists():
            target.symlink_to(path.resolve())


def prompts_make(folder: Path, count: int, length: int) -> list[str]:
    """``count`` texts of ``length`` tokens, or one or two more."""
    from transformers import AutoTokenizer

    tokenizer, rng, prompts = AutoTokenizer.from_pretrained(folder), random.Random(0), []
    for _ in range(count):
        words: list[str] = []
        while len(tokenizer(" ".join(words)).input_ids) < length:
            words.append(rng.choice(WORDS))
        prompts.append(" ".join(words))
    return prompts


async def ours(folder: str, prompts: list[str], options) -> None:
    """Steps of our engine and trainer; a JSON line for each."""
    from transformers import AutoTokenizer

    from gpu_runtime.interfaces import SamplingOptions
    from support.engine_loop import loop_open
    from tinkerscript.wire.config import SessionConfig

    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts_ids = [tuple(tokenizer(prompt).input_ids) for prompt in prompts]
    longest = max(map(len, prompts_ids)) + options.completion
    config = SessionConfig(
        grpo_n=options.group,
        learning_rate=LEARNING_RATE,
        max_context_length=longest,
        kl_coef=0.0,  # TRL's default
    )
    sampling = SamplingOptions(max_tokens=options.completion)
    async with loop_open(folder, config, "cpu") as loop:
        for step in range(1, options.steps + 2):
            marks = [time.perf_counter()]
            samples, _ = await loop.rollout(prompts_ids, sampling, reward)
            marks.append(time.perf_counter())
            await loop.train(samples, step)
            marks.append(time.perf_counter())
            await loop.hand_over(step)
            marks.append(time.perf_counter())
            parts = [end - begin for begin, end in zip(marks, marks[1:], strict=False)]
            emit(marks[-1] - marks[0], sum(sum(sample.mask_T) for sample in samples), parts)


def trl(folder: str, prompts: list[str], options) -> None:
    """Steps of TRL's trainer; a JSON line for each."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    lengths: list[int] = []

    def reward_text(completions, completion_ids, **_):
        lengths.extend(map(len, completion_ids))
        return [reward(text) for text in completions]

    class Clock(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **_):
            emit(time.perf_counter() - self.began, sum(lengths), [])
            lengths.clear()

    with tempfile.TemporaryDirectory() as output:
        arguments = GRPOConfig(
            output_dir=output, use_cpu=True, bf16=False, max_steps=options.steps + 1, learning_rate=LEARNING_RATE,
            per_device_train_batch_size=options.group, gradient_accumulation_steps=len(prompts),
            num_generations=options.group, max_completion_length=options.completion, temperature=1.0, beta=0.0,
            loss_type="grpo", gradient_checkpointing=False, save_strategy="no", report_to="none", logging_strategy="no",
            disable_tqdm=True, seed=0, model_init_kwargs={"dtype": "float32"},
        )  # fmt: skip
        dataset = Dataset.from_dict({"prompt": prompts * (options.steps + 1)})
        GRPOTrainer(
            folder, reward_text, args=arguments, train_dataset=dataset, callbacks=[Clock()]
        ).train()


def emit(seconds: float, tokens: int, parts: list[float]) -> None:
    print(json.dumps({"s": seconds, "tokens": tokens, "parts": parts}), flush=True)


def turn(python: str, side: str, folder: str, prompts: Path, options) -> list[dict]:
    """One process of a side; its counted steps."""
    command = [python, __file__, "--side", side, "--model", folder, "--prompts-file", str(prompts)]
    for name in ("group", "completion", "steps"):
        command += [f"--{name}", str(getattr(options, name))]
    # For both: threads that wait by spinning would starve each other as soon as the machine has
    # other work.
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=TURN_S, check=True, env=environment
    )
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"s"')]
    print(
        f"{side}: " + ", ".join(f"{step['s']:.1f} s" for step in steps), file=sys.stderr, flush=True
    )
    assert len(steps) == options.steps + 1, done.stdout
    return steps[1:]


def compare(options) -> None:
    """Take turns and print the table."""
    from tinkerscript.processes import machine_share

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        model_without_end(options.model, folder)
        prompts = Path(scratch) / "prompts.json"
        prompts.write_text(json.dumps(prompts_make(folder, options.prompts, options.prompt)))
        found: dict[str, list[list[dict]]] = {"ours": [], "trl": []}
        for _ in range(options.rounds):
            found["ours"].append(turn(sys.executable, "ours", str(folder), prompts, options))
            found["trl"].append(turn(options.peer, "trl", str(folder), prompts, options))
    expected = options.prompts * options.group * options.completion
    assert all(
        step["tokens"] == expected for turns in found.values() for steps in turns for step in steps
    ), found
    cores = machine_share.cpus()
    print(
        f"{Path(options.model).name}, fp32, {cores} cores; {options.prompts} x {options.prompt} prompt tokens"
    )
    print(
        f"in groups of {options.group}, {options.completion} tokens sampled each: {expected} a step"
    )
    print("| | s a step, median | sampled tokens / s | of it generation, training, hand-over |")
    print("| --- | --- | --- | --- |")
    for side, turns in found.items():
        steps = [step for steps in turns for step in steps]
        median = statistics.median(step["s"] for step in steps)
        parts = [
            statistics.median(part) for part in zip(*(step["parts"] for step in steps), strict=True)
        ]
        print(
            f"| {side} | {median:.1f} | {expected / median:.0f} | {', '.join(f'{p:.1f} s' for p in parts)} |"
        )
    ratios = [
        statistics.median(s["s"] for s in theirs) / statistics.median(s["s"] for s in own)
        for own, theirs in zip(found["ours"], found["trl"], strict=True)
    ]
    print(
        f"throughput, ours / TRL: {statistics.median(ratios):.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--peer", default=str(PEER), help="the Python that has TRL")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=256, help="tokens")
    parser.add_argument("--completion", type=int, default=64, help="tokens")
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--side", choices=["ours", "trl"], help="be one side, in this process")
    parser.add_argument("--prompts-file", type=Path)
    options = parser.parse_args()
    if options.side is None:
        compare(options)
        return
    prompts = json.loads(options.prompts_file.read_text())
    if options.side == "trl":
        trl(options.model, prompts, options)
    else:
        import asyncio

        asyncio.run(ours(options.model, prompts, options))


if __name__ == "__main__":
    main()
