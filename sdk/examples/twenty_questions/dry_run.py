"""Plays a few games against a canned player: no key, no GPU, no server. ``python dry_run.py``

Prints the turns of each game, the timelines that its calls merge into, which call gets which
reward, and the share of calls that merge. With ``--crew`` the games are those of the CrewAI flow.
"""

import argparse
import random
from pathlib import Path

from answerer import by_rules
from canned_player import Recorded, canned_player
from game import TURNS, Game
from openai import OpenAI
from search import by_index

from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--games", type=int, default=4)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--search", action="store_true", help="give the player the search tool")
    parser.add_argument(
        "--crew", action="store_true", help="play the CrewAI flow instead of the plain loop"
    )
    arguments = parser.parse_args()
    rows = rows_read(NOUNS, split="train", columns=["answer", "category"])
    if not 1 <= arguments.games <= len(rows):
        parser.error(
            f"--games must be from 1 to {len(rows)}, the nouns to train on, not {arguments.games}"
        )
    if arguments.crew:
        from crew import play
    else:
        from game import play
    nouns = random.Random(42).sample(rows, arguments.games)
    search = by_index if arguments.search else None
    with canned_player() as player:
        for number, noun in enumerate(nouns):
            with OpenAI(base_url=player.base_url, api_key=f"game-{number}") as client:
                game = play(noun, client, "canned", by_rules, turns=arguments.turns, search=search)
            print(shown(game, player.calls[f"game-{number}"]))
        calls = list(player.calls.values())
    later, merged = (sum(map(number, calls)) for number in (lambda game: len(game) - 1, merges))
    share = f"{merged / later:.2f}" if later else "-"
    print(
        f"{later} calls came after the first of their game; {merged} continue an earlier one: "
        f"merge share {share}"
    )
    print(
        "It is that of the canned player, whose tokens are words: of a model the session counts "
        "its own."
    )


def shown(game: Game, calls: list[Recorded]) -> str:
    """A game in lines: its turns, its searches, and its calls with timeline and reward."""
    timelines = timelines_of(calls)
    lines = [
        f"{game.secret['answer']} ({game.secret['category']}): reward {game.reward:g}, "
        f"{len(game.asked)} turns"
    ]
    lines += [
        f"  {number:>2}. {question} {said}" for number, (question, said) in enumerate(game.asked, 1)
    ]
    lines += [f"  searched: {query}" for query in game.searched]
    for number, timeline in enumerate(timelines, 1):
        tokens = sum(len(calls[call].reply) for call in timeline)
        named = (
            f"calls {timeline[0] + 1} to {timeline[-1] + 1}"
            if len(timeline) > 1
            else f"call {timeline[0] + 1}"
        )
        lines.append(
            f"  timeline {number}: {named}, {tokens} trained words, reward {game.reward:g}"
        )
    return "\n".join(lines)


def timelines_of(calls: list[Recorded]) -> list[list[int]]:
    """The calls of each timeline: one that extends the end of a timeline joins it."""
    timelines: list[list[int]] = []
    for number, call in enumerate(calls):
        home = next((timeline for timeline in timelines if timeline[-1] == call.extends), None)
        if home is None:
            timelines.append([number])
        else:
            home.append(number)
    return timelines


def merges(calls: list[Recorded]) -> int:
    return len(calls) - len(timelines_of(calls))


if __name__ == "__main__":
    main()
