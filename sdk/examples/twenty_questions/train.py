"""Trains a player of twenty questions: ``python train.py``.

``--smoke`` plays a few short games; it takes a step only where they do not all earn the same.
"""

import argparse
import os
import random
from pathlib import Path

import search
from answerer import Answerer, answerer_client, by_model, by_rules
from game import TURNS
from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check
from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")


def main() -> None:
    arguments = arguments_read()
    png_check()
    if arguments.crew:
        from crew import play
    else:
        from game import play
    answerer, look_up = others_choose(arguments)
    outside = [bool(arguments.answerer), bool(arguments.search_model)]
    turns = 3 if arguments.smoke else arguments.turns

    def agent(secret: dict[str, str], episode) -> WorkflowOutput:
        with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            game = play(secret, client, episode.model, answerer, turns=turns, search=look_up)
        counts = {
            "turns": len(game.asked),
            "searches": len(game.searched),
            "answers_unread": game.answers_unread,
        }
        # Calls of models that are not the episode's: they are counted here, and never trained.
        counts["outside_calls"] = outside[0] * counts["turns"] + outside[1] * counts["searches"]
        return WorkflowOutput(
            reward=game.reward,
            reward_parts=game.reward_parts,
            is_success=game.solved,
            metrics=counts,
        )

    train, test = (
        rows_read(NOUNS, split=split, columns=["answer", "category"]) for split in ("train", "test")
    )
    if arguments.smoke:
        train, test = train[:2], test[:2]
    train = random.Random(arguments.seed).sample(train, min(arguments.nouns, len(train)))
    with TinkerScript(
        arguments.base_model,
        name="twenty questions",
        grpo_n=2 if arguments.smoke else 8,
        tasks_per_batch=2 if arguments.smoke else 4,
        learning_rate=3e-5,
        max_context_length=4096 if look_up else 1536,
        max_tokens=64,
        seed=arguments.seed,
    ) as session:
        before = session.evaluate(agent, test, workers=arguments.runners, task_name=name)
        session.rollouts(
            agent,
            train,
            workers=arguments.runners,
            epochs=1 if arguments.smoke else arguments.epochs,
            task_name=name,
            report_to="twenty-questions.jsonl",
        )
        after = session.evaluate(agent, test, workers=arguments.runners, task_name=name)
        tuned = session.download_tuned_model("twenty-questions-model")
        print(session.plot("twenty-questions.png"))
    shares = f"{before.success_rate:.0%} before, {after.success_rate:.0%} after"
    print(
        f"held out, solved: {shares}; reward: {before.mean:.2f} before, {after.mean:.2f} after; "
        f"the model lies in {tuned.path}"
    )
    print(f"python evaluate.py --before {arguments.base_model} --model {tuned.checkpoint_id}")


def name(secret: dict[str, str]) -> str:
    return secret["answer"]


def arguments_read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base-model", default="SmolLM2-135M-Instruct", help="any of the catalogue"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--turns", type=int, default=6, help=f"questions of a game; the whole game has {TURNS}"
    )
    parser.add_argument(
        "--nouns", type=int, default=32, help="nouns to train on, drawn from the 160"
    )
    parser.add_argument(
        "--runners", type=int, default=16, help="games that are played side by side"
    )
    parser.add_argument(
        "--answerer", help="a model of ANSWERER_BASE_URL or OPENAI_BASE_URL; without it fixed rules"
    )
    parser.add_argument(
        "--search", action="store_true", help="give the player a search tool over the noun list"
    )
    parser.add_argument(
        "--search-model", help="let a model of OPENAI_BASE_URL play the search engine"
    )
    parser.add_argument(
        "--crew", action="store_true", help="play the CrewAI flow instead of the plain loop"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def others_choose(arguments: argparse.Namespace) -> tuple[Answerer, search.Search | None]:
    """Who answers, and what searches. A model needs OPENAI_API_KEY; without it that is said at
    once.
    """
    is_elsewhere = bool(os.environ.get("ANSWERER_BASE_URL"))
    if ((arguments.answerer and not is_elsewhere) or arguments.search_model) and not os.environ.get(
        "OPENAI_API_KEY"
    ):
        raise SystemExit(
            "--answerer and --search-model need OPENAI_API_KEY (and OPENAI_BASE_URL, if not "
            "OpenAI's)."
        )
    answerer = by_model(answerer_client(), arguments.answerer) if arguments.answerer else by_rules
    if arguments.search_model:
        return answerer, search.by_model(OpenAI(), arguments.search_model)
    return answerer, search.by_index if arguments.search else None


if __name__ == "__main__":
    main()
