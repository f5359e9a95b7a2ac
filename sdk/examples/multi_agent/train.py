"""Two roles of one model that learn together, each by its own reward: one describes a word, the
other finds it.

``python train.py`` trains; ``--smoke`` plays a few games to see that everything is connected.
"""

import argparse
import random
import re

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check

BASE_MODEL = "SmolLM2-135M-Instruct"
TRAIN = [
    "apple", "bridge", "candle", "desert", "engine", "forest", "guitar", "hammer", "island", "jacket", "kettle",
    "ladder",
]  # fmt: skip
HELD_OUT = ["mirror", "needle", "ocean", "pencil"]
CHOICES = 3


def agent(word: str, episode) -> WorkflowOutput:
    """The describer sees the word, the guesser only the description. ``X-Agent`` says whose call it
    is.
    """
    chance = random.Random(word)
    # no word of one part is offered in a game of the other
    words = HELD_OUT if word in HELD_OUT else TRAIN
    others = chance.sample([other for other in words if other != word], CHOICES - 1)
    offered = chance.sample([word, *others], CHOICES)
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:

        def say(role: str, asked: str) -> str:
            reply = client.chat.completions.create(
                model=episode.model,
                messages=[{"role": "user", "content": asked}],
                max_tokens=16,
                extra_headers={"X-Agent": role},
            )
            return reply.choices[0].message.content or ""

        described = say(
            "describer", f"Describe a {word} in a few words. Do not write the word {word}."
        )
        guessed = say(
            "guesser", f"What is meant: {described!r}? Reply with one of: {', '.join(offered)}."
        )
    rewards = score(word, offered, described, guessed)
    return WorkflowOutput(
        reward=sum(rewards.values()) / 2,
        rewards_by_agent=rewards,
        is_success=rewards["describer"] == 1.0,
    )


def score(word: str, offered: list[str], described: str, guessed: str) -> dict[str, float]:
    """A right guess is 1 for both: the first of the offered words that it names counts.

    A description that holds the word itself is -1, and worth nothing to the guesser.
    """
    named = re.search(rf"\b({'|'.join(offered)})\b", guessed.lower())
    if word in described.lower():
        return {"describer": -1.0, "guesser": 0.0}
    right = 1.0 if named and named[1] == word else 0.0
    return {"describer": right, "guesser": right}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="four words, one step")
    arguments = parser.parse_args()
    png_check()
    train = TRAIN[: 4 if arguments.smoke else None]
    with TinkerScript(
        arguments.base_model,
        name="describe and guess",
        grpo_n=4 if arguments.smoke else 8,
        tasks_per_batch=4,
        learning_rate=3e-5,
        max_context_length=256,
        max_tokens=16,
        seed=arguments.seed,
    ) as session:
        before = session.evaluate(agent, HELD_OUT, attempts=1 if arguments.smoke else 8)
        session.rollouts(agent, train, epochs=1 if arguments.smoke else arguments.epochs)
        after = session.evaluate(agent, HELD_OUT, attempts=1 if arguments.smoke else 8)
        tuned = session.download_tuned_model("multi-agent-model")
        print(session.plot("multi-agent.png"))
    shares = f"{before.success_rate:.0%} before, {after.success_rate:.0%} after"
    print(f"held out, found: {shares}; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
