"""A folder in which the recipes of ``tinker-cookbook`` run without a network: data sets and a
tokenizer by their names.

``datasets.load_dataset("openai/gsm8k")`` and the cookbook's tokenizers read a local folder of that
name where there is one. Their contents are made here, small and with answers that a few steps can
move towards.
"""

import json
import random
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

# Names that the cookbook knows renderers for; their weights are a tiny model's.
BASE, INSTRUCT = "Qwen/Qwen3-8B-Base", "Qwen/Qwen3-4B-Instruct-2507"
# whom twenty_questions asks, whatever it trains: a second base model beside it
ANSWERER = "Qwen/Qwen3.5-9B"
NAMES = (BASE, INSTRUCT, ANSWERER)
# the renderer of ANSWERER's family asserts that each is one token
SPECIAL_TOKENS = ("<think>", "</think>")
# of sl_basic, fixed; fewer rows of a test split make no batch, and the mean over none is NaN
FULL_BATCH = 128
# of the tiny model, whose tokens are characters: the games explain themselves at length
CONTEXT_LENGTH = 8192
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")


def workspace_make(folder: Path, model: Path) -> Path:
    """The folder, with the tokenizer of ``model`` under its names. ``model`` gets a longer
    context.
    """
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(
        json.dumps(config | {"max_position_embeddings": CONTEXT_LENGTH})
    )
    for tokenizer in map(folder.joinpath, NAMES):
        tokenizer.mkdir(parents=True)
        for name in TOKENIZER_FILES:
            if (model / name).exists():
                shutil.copy(model / name, tokenizer / name)
    rng = random.Random(0)
    chats = [{"messages": _chat(rng)} for _ in range(160)]
    dataset_make(
        folder / "HuggingFaceH4" / "no_robots", {"train": chats, "test": chats[:FULL_BATCH]}
    )
    sums = [_sum(rng) for _ in range(96)]
    dataset_make(folder / "openai" / "gsm8k", {"train": sums, "test": sums[:16]}, config="main")
    dataset_make(folder / "zwhe99" / "DeepMath-103K", {"train": sums})
    pairs = [_pair(rng) for _ in range(96)]
    dataset_make(folder / "Anthropic" / "hh-rlhf", {"train": pairs, "test": pairs[:32]})
    questions_make(
        folder / ".cache" / "tinker-cookbook" / "PeterJinGo" / "nq_hotpotqa_train" / "train"
    )
    lines = "".join(json.dumps(chat) + "\n" for chat in chats)
    (folder / "conversations.jsonl").write_text(lines)
    return folder


def dataset_make(
    folder: Path, splits: Mapping[str, Iterable[Mapping[str, Any]]], *, config: str = "default"
) -> None:
    """A data set of JSON lines; the README's head names its splits, as on the hub."""
    folder.mkdir(parents=True)
    files = []
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append(f"      - split: {split}\n        path: {split}.jsonl\n")
    head = f"---\nconfigs:\n  - config_name: {config}\n    data_files:\n{''.join(files)}---\n"
    (folder / "README.md").write_text(head)


def questions_make(folder: Path) -> None:
    """Questions of search_tool, where it keeps what it has downloaded in its user's home, which is
    the workspace.
    """
    folder.mkdir(parents=True)
    rows = [
        {
            "question": f"What comes after {number}?",
            "golden_answers": [str(number + 1)],
            "data_source": "numbers",
        }
        for number in range(64)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train.parquet")


def _chat(rng: random.Random) -> list[dict[str, str]]:
    word = rng.choice(["red", "green", "blue", "grey"])
    return [
        {"role": "user", "content": f"Say {word}."},
        {"role": "assistant", "content": f"It is {word}."},
    ]


def _sum(rng: random.Random) -> dict[str, str]:
    a, b = rng.randrange(10), rng.randrange(10)
    return {
        "question": f"What is {a} plus {b}?",
        "answer": f"{a} and {b} make {a + b}.\n#### {a + b}",
    }


def _pair(rng: random.Random) -> dict[str, str]:
    question = f"\n\nHuman: Is {rng.randrange(1000)} a number?\n\nAssistant:"
    return {"chosen": f"{question} Yes, it is.", "rejected": f"{question} No."}
