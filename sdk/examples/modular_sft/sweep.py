"""Trains the experiments one after another with the ``tinker`` client, then compares them on
held-out conversations.

``python sweep.py``; TINKER_BASE_URL and TINKER_API_KEY say where. RUN_TRAINING=0 or RUN_EVAL=0
leaves that part out. What is done already is kept: a sweep that was interrupted goes on with the
experiments that have no checkpoint.
"""

import argparse
import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import tinker
from conversations import conversations_read, tokenizer_load
from evaluate import evaluate
from experiments import EXPERIMENTS, Experiment
from report import report
from train import train

RUN_TRAINING = os.environ.get("RUN_TRAINING", "1") != "0"
RUN_EVAL = os.environ.get("RUN_EVAL", "1") != "0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--experiments", type=Path, help="folder; else experiments, or experiments-smoke"
    )
    parser.add_argument(
        "--tokenizer", help="a folder or a Hugging Face id, in place of those of the list"
    )
    parser.add_argument("--smoke", action="store_true", help="two experiments of two steps")
    arguments = parser.parse_args()
    if RUN_TRAINING and os.environ.get("WANDB_PROJECT") and find_spec("wandb") is None:
        raise SystemExit(
            "WANDB_PROJECT is set, and wandb is not installed: pip install wandb, or unset "
            "WANDB_PROJECT."
        )
    # A smoke has a folder of its own: its two steps are not to be kept and ranked beside whole
    # runs.
    folder = arguments.experiments or Path(
        "experiments-smoke" if arguments.smoke else "experiments"
    )
    chosen = EXPERIMENTS[:2] if arguments.smoke else EXPERIMENTS
    if len({each.name for each in chosen}) < len(chosen):
        raise SystemExit("Two experiments have the same name.")
    failed = []
    for experiment in chosen:
        if arguments.tokenizer:
            experiment = replace(experiment, tokenizer=arguments.tokenizer)
        try:
            carry_out(experiment, folder / experiment.name, smoke=arguments.smoke)
        except (tinker.TinkerError, SystemExit) as error:
            failed.append(experiment.name)
            print(f"{experiment.name} failed: {error}", flush=True)
    print(report(folder))
    if failed:
        print(f"{len(failed)} of {len(chosen)} experiments failed: {', '.join(failed)}")
    return int(bool(failed))


def carry_out(experiment: Experiment, folder: Path, *, smoke: bool) -> None:
    """Trains and evaluates one experiment, as far as it is wanted and not done yet."""
    splits = conversations_read(experiment.dataset)
    if smoke:
        splits = {"train": splits["train"][:32], "test": splits["test"][:4]}
    config, checkpoint, evaluation = (
        folder / f"{name}.json" for name in ("config", "checkpoint", "evaluation")
    )
    options = json.loads(json.dumps(experiment.options())) | ({"smoke": True} if smoke else {})
    if config.exists() and json.loads(config.read_text()) != options:
        raise SystemExit(
            f"{folder} is of other options: remove it, or give the experiment another name."
        )
    wants_training = RUN_TRAINING and not checkpoint.exists()
    if not wants_training and not (RUN_EVAL and checkpoint.exists() and not evaluation.exists()):
        return
    folder.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps(options))
    tokenizer = tokenizer_load(experiment.tokenizer or experiment.base_model)
    with tinker.ServiceClient(user_metadata={"experiment": experiment.name}) as service:
        if wants_training:
            training = service.create_lora_training_client(
                base_model=experiment.base_model, rank=experiment.rank, seed=experiment.seed
            ).result()
            trained = train(
                experiment, training, tokenizer, splits, folder, max_steps=2 if smoke else None
            )
            checkpoint.write_text(json.dumps(trained))
        if RUN_EVAL:
            trained = json.loads(checkpoint.read_text())
            shares = evaluate(experiment, service, tokenizer, splits["test"], trained, folder)
            evaluation.write_text(json.dumps(shares))


if __name__ == "__main__":
    raise SystemExit(main())
