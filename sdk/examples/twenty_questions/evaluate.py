"""Plays every noun of a split with any model behind an OpenAI endpoint, and prints the share solved by category.

``python evaluate.py --model NAME [--before NAME] --out games.jsonl``; the endpoint is OPENAI_BASE_URL, the key
OPENAI_API_KEY. Games are played side by side, each becomes a line of the file, and a second start goes on with those
that are missing. With ``--before`` both models play the same nouns and the table compares them.
"""

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import search
from answerer import by_model, by_rules
from game import TURNS, play
from openai import OpenAI, OpenAIError
from tables import comparison, table

from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")
Games = dict[str, dict]  # by the noun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a base model, a checkpoint, or a model of another endpoint")
    parser.add_argument("--before", metavar="NAME", help="another model of the endpoint to compare with")
    parser.add_argument("--split", default="test", choices=["train", "test"])
    parser.add_argument("--out", type=Path, default=Path("games.jsonl"))
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--answerer", help="a model of the same endpoint; without it fixed rules")
    parser.add_argument("--search", action="store_true", help="give the player the search tool")
    arguments = parser.parse_args()
    if not os.environ.get("OPENAI_API_KEY"):
        raise SystemExit("Set OPENAI_API_KEY, and OPENAI_BASE_URL for an endpoint other than OpenAI's.")
    nouns = rows_read(NOUNS, split=arguments.split, columns=["answer", "category"])
    wanted = [model for model in (arguments.before, arguments.model) if model]
    with OpenAI() as client:
        played = [games_play(model, nouns, client, arguments) for model in wanted]
    print(*[f"{model}\n{table(list(games.values()))}" for model, games in zip(wanted, played, strict=True)], sep="\n")
    if arguments.before:
        print(comparison(*played))
    if failed := len(wanted) * len(nouns) - sum(map(len, played)):
        print(f"{failed} games failed; start again to play them.")
    return int(failed > 0)


def games_play(model: str, nouns: list[dict[str, str]], client: OpenAI, arguments: argparse.Namespace) -> Games:
    """The games of one model; a game whose endpoint fails is said, and left out."""
    settings = {"model": model} | {
        name: getattr(arguments, name) for name in ("turns", "temperature", "answerer", "search")
    }
    answerer = by_model(client, arguments.answerer) if arguments.answerer else by_rules
    look_up = search.by_index if arguments.search else None
    games = games_read(arguments.out, settings)
    missing = [noun for noun in nouns if noun["answer"] not in games]

    def one(noun: dict[str, str]) -> dict:
        game = play(
            noun, client, model, answerer, turns=arguments.turns, search=look_up, temperature=arguments.temperature
        )
        return settings | noun | {"solved": game.solved, "asked": game.asked, "searched": game.searched}

    with arguments.out.open("a") as file, ThreadPoolExecutor(arguments.workers) as pool:
        for future in as_completed([pool.submit(one, noun) for noun in missing]):
            try:
                line = future.result()
            except OpenAIError as error:
                print(f"A game failed and is left out: {error}")
                continue
            games[line["answer"]] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
    return {noun["answer"]: games[noun["answer"]] for noun in nouns if noun["answer"] in games}


def games_read(path: Path, settings: dict) -> Games:
    """Games that were played before with these settings; the last line may be cut if that run was killed."""
    games = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            game = json.loads(line)
        except ValueError:
            continue
        if settings.items() <= game.items():
            games[game["answer"]] = game
    return games


if __name__ == "__main__":
    raise SystemExit(main())
