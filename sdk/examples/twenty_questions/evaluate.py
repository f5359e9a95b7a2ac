"""Plays every noun of a split with any model behind an OpenAI endpoint, and prints the share solved
by category.

``python evaluate.py --model NAME [--before NAME] --out games.jsonl``; the endpoint is
OPENAI_BASE_URL, the key OPENAI_API_KEY; an ``--answerer`` may be at another, ANSWERER_BASE_URL and
ANSWERER_API_KEY. Games are played side by side, each becomes a line of the file, and a second start
goes on with those that are missing. With ``--before`` both models play the same nouns and the table
compares them.
"""

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import search
from answerer import answerer_client, by_model, by_rules
from game import TURNS, AnswersUnread, play
from openai import OpenAI, OpenAIError
from tables import comparison, table

from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")
Games = dict[str, dict]  # by the noun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--model", required=True, help="a base model, a checkpoint, or a model of another endpoint"
    )
    parser.add_argument(
        "--before", metavar="NAME", help="another model of the endpoint to compare with"
    )
    parser.add_argument("--split", default="test", choices=["train", "test"])
    parser.add_argument("--out", type=Path, default=Path("games.jsonl"))
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--answerer", help="a model that answers; without it fixed rules")
    parser.add_argument("--search", action="store_true", help="give the player the search tool")
    arguments = parser.parse_args()
    if not os.environ.get("OPENAI_API_KEY"):
        raise SystemExit(
            "Set OPENAI_API_KEY, and OPENAI_BASE_URL for an endpoint other than OpenAI's."
        )
    nouns = rows_read(NOUNS, split=arguments.split, columns=["answer", "category"])
    wanted = [model for model in (arguments.before, arguments.model) if model]
    with OpenAI() as client:
        played = [games_play(model, nouns, client, arguments) for model in wanted]
    print(
        *[
            f"{model}\n{table(list(games.values()))}"
            for model, games in zip(wanted, played, strict=True)
        ],
        sep="\n",
    )
    if arguments.before:
        print(comparison(*played))
    unread = [game.get("answers_unread", 0) for games in played for game in games.values()]
    if any(unread):
        print(
            f"{sum(unread)} answers of the answerer could not be read and were n/a, in "
            f"{sum(map(bool, unread))} games"
        )
    if failed := len(wanted) * len(nouns) - sum(map(len, played)):
        print(f"{failed} games failed; start again to play them.")
    return int(failed > 0)


def games_play(
    model: str, nouns: list[dict[str, str]], client: OpenAI, arguments: argparse.Namespace
) -> Games:
    """The games of one model; a game whose endpoint fails is said, and left out."""
    settings = {"model": model, "endpoint": str(client.base_url)} | {
        name: getattr(arguments, name) for name in ("turns", "temperature", "answerer", "search")
    }
    answerer = by_rules
    if arguments.answerer:
        asked = answerer_client()
        answerer, settings["answerer_endpoint"] = (
            by_model(asked, arguments.answerer),
            str(asked.base_url),
        )
    look_up = search.by_index if arguments.search else None
    games = games_read(arguments.out, settings)
    missing = [noun for noun in nouns if noun["answer"] not in games]

    def one(noun: dict[str, str]) -> dict:
        game = play(
            noun,
            client,
            model,
            answerer,
            turns=arguments.turns,
            search=look_up,
            temperature=arguments.temperature,
        )
        counts = {"answers_unread": game.answers_unread, "searched": game.searched}
        return settings | noun | {"solved": game.solved, "asked": game.asked} | counts

    with arguments.out.open("a") as file, ThreadPoolExecutor(arguments.workers) as pool:
        for future in as_completed([pool.submit(one, noun) for noun in missing]):
            try:
                line = future.result()
            except (OpenAIError, AnswersUnread) as error:
                print(f"A game failed and is left out: {error}")
                continue
            games[line["answer"]] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
    return {noun["answer"]: games[noun["answer"]] for noun in nouns if noun["answer"] in games}


def games_read(path: Path, settings: dict) -> Games:
    """Games that were played before with these settings; the last line may be cut if that run was
    killed.
    """
    games = {}
    for line in path.read_text().split("\n") if path.exists() else []:
        try:
            game = json.loads(line)
        except ValueError:
            continue
        if settings.items() <= game.items():
            games[game["answer"]] = game
    return games


if __name__ == "__main__":
    raise SystemExit(main())
