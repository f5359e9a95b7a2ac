"""Trains a player of twenty questions: ``python train.py``; ``--smoke`` plays four short games and takes one step."""

import argparse
import os
from pathlib import Path

from answerer import Answerer, by_model, by_rules
from game import TURNS, play
from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import curve
from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--answerer", help="a model of the OpenAI endpoint in OPENAI_BASE_URL; without it fixed rules")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    answerer, turns = answerer_choose(arguments.answerer), 3 if arguments.smoke else TURNS

    def agent(secret: dict[str, str], episode) -> WorkflowOutput:
        with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            game = play(secret, client, episode.model, answerer, turns=turns)
        return WorkflowOutput(reward=game.reward, is_success=game.solved, metrics={"turns": len(game.asked)})

    train, test = (rows_read(NOUNS, split=split, columns=["answer", "category"]) for split in ("train", "test"))
    if arguments.smoke:
        train, test = train[:2], test[:2]
    with TinkerScript(
        arguments.base_model, name="twenty questions", grpo_n=2 if arguments.smoke else 8,
        tasks_per_batch=2 if arguments.smoke else 8, learning_rate=3e-5, max_context_length=1536, max_tokens=24,
    ) as session:  # fmt: skip
        before = session.evaluate(agent, test, task_name=name)
        session.rollouts(agent, train, epochs=1 if arguments.smoke else arguments.epochs, task_name=name)
        after = session.evaluate(agent, test, task_name=name)
        tuned = session.download_tuned_model("twenty-questions-model")
        rewards = [event.data["reward_mean"] for event in session.events(kinds=["metric"])]
    print(curve(rewards, title="mean reward by step"))
    print(f"solved: {before.success_rate:.0%} before, {after.success_rate:.0%} after; the model lies in {tuned.path}")


def name(secret: dict[str, str]) -> str:
    return secret["answer"]


def answerer_choose(model: str | None) -> Answerer:
    """Fixed rules, or a model behind OPENAI_BASE_URL with OPENAI_API_KEY; a missing key is said at once."""
    if model is None:
        return by_rules
    if not os.environ.get("OPENAI_API_KEY"):
        raise SystemExit(f"--answerer {model} needs OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint).")
    return by_model(OpenAI(), model)


if __name__ == "__main__":
    main()
