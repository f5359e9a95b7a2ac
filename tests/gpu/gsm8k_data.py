"""What the GSM8K part of `make gpu` trains on: the model and the problems, from the Hugging Face
Hub or its cache here.

On a machine without a network, bring HF_HOME with what these put into it elsewhere:

    hf download Qwen/Qwen2.5-1.5B-Instruct
    hf download openai/gsm8k --repo-type dataset
"""

import random
from dataclasses import dataclass
from pathlib import Path

import httpx
from huggingface_hub import constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

from support.tiny_model import tiny_model_make
from tinkerscript.datasets import rows_read

MODEL, DATASET = "Qwen/Qwen2.5-1.5B-Instruct", "openai/gsm8k"
SPLITS = {"train": 7473, "test": 1319}  # problems, as GSM8K was published (arXiv:2110.14168)
FILES = ["*.json", "*.safetensors", "merges.txt"]
VALIDATION = 500  # problems of the training split that are never trained on
SMOKE = Path(__file__).resolve().parents[2] / "sdk" / "examples" / "gsm8k" / "problems.jsonl"


@dataclass(frozen=True)
class Problems:
    """Rows with ``question`` and ``answer``. ``validation`` says when to stop, ``test`` what came
    of it.
    """

    model: Path
    train: list[dict[str, str]]
    validation: list[dict[str, str]]
    test: list[dict[str, str]]


def problems_get(folder: Path, *, smoke: bool) -> Problems:
    """All of it, the model as a folder of files below ``folder``; a smoke has a tiny model and
    problems of the example.

    Raises SystemExit with what is not here and how it is brought.
    """
    if smoke:
        train, test = (
            rows_read(SMOKE, split=split, columns=["question", "answer"]) for split in SPLITS
        )
        return Problems(tiny_model_make(folder / "tiny"), train[:4], train[4:6], test[:2])
    splits = {split: _split(split, count) for split, count in SPLITS.items()}
    train = random.Random(0).sample(splits["train"], len(splits["train"]))
    return Problems(_model(folder), train[VALIDATION:], train[:VALIDATION], splits["test"])


def _split(split: str, count: int) -> list[dict[str, str]]:
    name = f"main/{split}-00000-of-00001.parquet"
    try:
        path = hf_hub_download(DATASET, name, repo_type="dataset")
    except (
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        HfHubHTTPError,
        httpx.HTTPError,
    ) as failure:
        raise SystemExit(not_here(f"{name} of the dataset {DATASET}", failure)) from failure
    rows = rows_read(path, columns=["question", "answer"])
    if len(rows) != count:
        raise SystemExit(
            f"{path} has {len(rows)} problems; GSM8K's {split} split has {count}: this is another data set."
        )
    return rows


def _model(folder: Path) -> Path:
    """As files of its own: the Hub's cache holds links."""
    target = folder / MODEL.rpartition("/")[2]
    try:
        snapshot_download(MODEL, local_dir=target, allow_patterns=FILES)
        return target
    except (
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        HfHubHTTPError,
        httpx.HTTPError,
    ) as failure:
        problem = failure
    try:  # without a network a cache is found, and no copy of it made
        return Path(snapshot_download(MODEL, allow_patterns=FILES, local_files_only=True))
    except LocalEntryNotFoundError:
        raise SystemExit(not_here(f"the model {MODEL}", problem)) from problem


def not_here(what: str, failure: Exception) -> str:
    """Why ``what`` could not be had, and the two ways to bring it."""
    return (
        f"GSM8K: {what} is not in {constants.HF_HUB_CACHE}, and the Hub could not be asked for it "
        f"({type(failure).__name__}: {' '.join(str(failure).split())[:200]}). Give this machine a network (HF_ENDPOINT "
        "names a mirror, HF_HUB_OFFLINE=1 forbids it), or bring HF_HOME with what `hf download` put there elsewhere."
    )
