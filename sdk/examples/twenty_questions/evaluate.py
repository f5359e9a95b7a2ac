"""Plays every noun of a split with any model behind an OpenAI endpoint, and prints the share solved by category.

``python evaluate.py --model NAME --out games.jsonl``; the endpoint is OPENAI_BASE_URL, the key OPENAI_API_KEY. Games
are played side by side, each becomes a line of the file, and a second start goes on with those that are missing.
"""

import argparse
import json
import math
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from answerer import by_rules
from game import TURNS, play
from openai import OpenAI, OpenAIError

from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--split", default="test", choices=["train", "test"])
    parser.add_argument("--out", type=Path, default=Path("games.jsonl"))
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--temperature", type=float, default=0.0)
    arguments = parser.parse_args()
    if not os.environ.get("OPENAI_API_KEY"):
        raise SystemExit("Set OPENAI_API_KEY, and OPENAI_BASE_URL for an endpoint other than OpenAI's.")
    nouns = rows_read(NOUNS, split=arguments.split, columns=["answer", "category"])
    games = games_read(arguments.out, arguments.model)
    missing = [noun for noun in nouns if noun["answer"] not in games]
    failed = 0
    with OpenAI() as client, arguments.out.open("a") as file, ThreadPoolExecutor(arguments.workers) as pool:

        def one(noun: dict[str, str]) -> dict:
            game = play(
                noun, client, arguments.model, by_rules, turns=arguments.turns, temperature=arguments.temperature
            )
            return {"model": arguments.model, **noun, "solved": game.solved, "asked": game.asked}

        for future in as_completed([pool.submit(one, noun) for noun in missing]):
            try:
                line = future.result()
            except OpenAIError as error:
                failed += 1
                print(f"A game failed and is left out: {error}")
                continue
            games[line["answer"]] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
    wanted = [games[noun["answer"]] for noun in nouns if noun["answer"] in games]
    print(table(wanted))
    if failed:
        print(f"{failed} games failed; start again to play them.")
    return int(failed > 0)


def games_read(path: Path, model: str) -> dict[str, dict]:
    """Games of this model that were played before; the last line may be cut if that run was killed."""
    games = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            game = json.loads(line)
        except ValueError:
            continue
        if game["model"] == model:
            games[game["answer"]] = game
    return games


def table(games: list[dict]) -> str:
    """Share solved by category and in all, each with its 95 % interval."""
    by_category: defaultdict[str, list[bool]] = defaultdict(list)
    for game in games:
        by_category[game["category"]].append(game["solved"])
    rows = [*sorted(by_category.items()), ("all", [game["solved"] for game in games])]
    lines = [f"{'category':<12} {'games':>5} {'solved':>7}   95 % interval"]
    for category, solved in rows:
        low, high = interval(sum(solved), len(solved))
        share = f"{sum(solved) / len(solved):7.0%}" if solved else "      -"
        lines.append(f"{category:<12} {len(solved):>5} {share}   {low:.0%} to {high:.0%}")
    return "\n".join(lines)


def interval(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share: (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). E. B. Wilson, 1927."""
    if count == 0:
        return 0.0, 1.0
    share, square = successes / count, z * z / count
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, (share + square / 2 - half) / (1 + square)), min(1.0, (share + square / 2 + half) / (1 + square))


if __name__ == "__main__":
    raise SystemExit(main())
