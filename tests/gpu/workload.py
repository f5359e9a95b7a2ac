"""One load for the whole loop of the product (step.py) and of TRL (trl_peer.py): model, prompts,
lengths, devices.

Both sample ``group`` answers to each prompt, ``tasks`` prompts a step, with twice as many answers
under way as a step trains, and train none that is older than ``staleness`` steps. Answers have a
fixed length: the model's end token is one that it never samples, or hardly. By default the model
has the shape of Qwen3-0.6B, but for a smaller vocabulary, and random weights. Half of the devices
train and the others generate, one device does both; by default there are two.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from benchmarks.grpo_step import LEARNING_RATE, model_without_end, prompts_make  # noqa: E402

VOCABULARY = 49_152  # of the model that is made here
TEMPLATE_TOKENS = 64  # more than a chat template adds to a prompt
PROMPTS = 64
COLUMNS = (
    "", "s a step", "generated tokens / s", "trained tokens / s", "trainer idle", "engine idle", "hand-over, s",
    "hand-over, GB", "MFU of steps", "MFU of all time", "trainer, GiB", "engine, GiB",
)  # fmt: skip

__all__ = ["COLUMNS", "LEARNING_RATE", "Workload", "workload_options", "workload_read"]


@dataclass(frozen=True)
class Workload:
    """Lengths in tokens; ``steps`` are measured after ``warm_up`` others. ``devices`` 0: a CPU."""

    model: str
    prompt: int
    completion: int
    group: int
    tasks: int
    staleness: int
    warm_up: int
    steps: int
    devices: int

    @property
    def ranks(self) -> int:
        """Processes that train."""
        return max(1, self.devices // 2)

    @property
    def episodes(self) -> int:
        """Of one step."""
        return self.group * self.tasks

    @property
    def under_way(self) -> int:
        """Answers that are being sampled at a time."""
        return 2 * self.episodes

    @property
    def context(self) -> int:
        """Prompt, template and answer."""
        return self.prompt + TEMPLATE_TOKENS + self.completion

    def words(self, device: str) -> str:
        """What is measured, in a sentence."""
        where = {0: "a CPU", 1: f"one {device} that both share"}.get(
            self.devices, f"{self.devices} x {device}, {self.ranks} of them train"
        )
        return (
            f"{Path(self.model).name or self.model} on {where}; prompts of {self.prompt} tokens, answers of"
            f" {self.completion}, groups of {self.group}, {self.tasks} a step, {self.under_way} answers under way, at"
            f" most {self.staleness} steps old; {self.steps} steps after {self.warm_up}"
        )

    def prepare(self, folder: Path) -> tuple[Path, list[str]]:
        """The model's folder, made in ``folder``, and the prompts."""
        made, prompts = folder / "model", folder / "prompts.json"
        if not made.exists():
            made.mkdir()
            model_without_end(self.model, made)
            prompts.write_text(json.dumps(prompts_make(made, PROMPTS, self.prompt)))
        return made, json.loads(prompts.read_text())


def workload_options(parser: argparse.ArgumentParser) -> None:
    """Its options, with what they are on GPUs."""
    parser.add_argument("--model", help="a folder; else the shape of Qwen3-0.6B, made here")
    for name, value in (
        ("prompt", 512),
        ("completion", 512),
        ("group", 8),
        ("tasks", 8),
        ("staleness", 4),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--devices", type=int, default=2, help="or fewer, where the machine has fewer"
    )
    parser.add_argument("--warm-up", type=int, default=2, help="steps")
    parser.add_argument("--steps", type=int, default=8)


def workload_read(options: argparse.Namespace, scratch: Path) -> Workload:
    """Of ``options``; for a CPU where they say ``smoke``. Makes a model in ``scratch`` where none
    is named.
    """
    import torch

    if options.smoke:
        from support.tiny_model import tiny_model_make

        model = options.model or str(tiny_model_make(scratch / "tiny"))
        return Workload(model, 24, 8, group=2, tasks=2, staleness=4, warm_up=1, steps=2, devices=0)
    model = options.model or str(shape_make(scratch / "Qwen3-0.6B-shape"))
    return Workload(
        model, options.prompt, options.completion, options.group, options.tasks, options.staleness, options.warm_up,
        options.steps, devices=min(options.devices, torch.cuda.device_count()),
    )  # fmt: skip


def shape_make(folder: Path) -> Path:
    """The shape of Qwen3-0.6B with random weights, and a tokenizer of VOCABULARY tokens, most of
    which no text has.
    """
    import torch
    from gpu.throughput import SHAPE
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    from support.tiny_model import CHAT_TEMPLATE

    texts = ["<|im_start|>", "<|im_end|>", "\n", *map(chr, range(32, 127))]
    texts += [f" w{number}" for number in range(VOCABULARY - len(texts))]
    tokenizer = Tokenizer(
        models.BPE(vocab={text: number for number, text in enumerate(texts)}, merges=[])
    )
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    shape = SHAPE | {
        "vocab_size": VOCABULARY,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True)).to(
        torch.bfloat16
    ).save_pretrained(folder)
    return folder


def cells_make(named: dict[str, str], columns: Sequence[str] = COLUMNS) -> list[str]:
    """A line of the table: what is not ``named`` was not measured."""
    unknown = named.keys() - set(columns)
    assert not unknown, unknown
    return [named.get(column, "") for column in columns]
