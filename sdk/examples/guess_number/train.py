"""Guess the number: a game of several turns, in which each guess is answered by "higher" or
"lower".

The conversation grows, so all turns of a game are one timeline and are trained together, with one
reward at the end. ``python train.py`` trains; ``--smoke`` plays a few games to see that everything
is connected.
"""

import argparse
import re

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check

BASE_MODEL = "SmolLM2-135M-Instruct"
LARGEST, TURNS = 15, 5
HELD_OUT = (5, 9, 13)  # never the secret of a game that is trained
RULES = (
    f"I think of a number from 1 to {LARGEST}. Guess it; I say higher or lower. Reply with one "
    "number."
)


def agent(secret: int, episode) -> WorkflowOutput:
    """Play one game. The reward is 1 for the number, less what the turns before it cost."""
    messages = [{"role": "user", "content": RULES}]
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        for turn in range(TURNS):
            reply = client.chat.completions.create(
                model=episode.model, messages=messages, max_tokens=8
            )
            said = reply.choices[0].message.content or ""
            guess = number_in(said)
            if guess == secret:
                return WorkflowOutput(
                    reward=1.0 - 0.1 * turn, is_success=True, metrics={"turns": turn + 1}
                )
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": hint(guess, secret)},
            ]
    return WorkflowOutput(reward=0.0, is_success=False, metrics={"turns": TURNS})


def number_in(said: str) -> int | None:
    """The first number that the reply names, if it names one."""
    found = re.search(r"\d+", said)
    return int(found[0][:6]) if found else None


def hint(guess: int | None, secret: int) -> str:
    if guess is None:
        return "That is no number. Reply with one number."
    return "higher" if guess < secret else "lower"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="four games' numbers, one step")
    arguments = parser.parse_args()
    png_check()
    train = [number for number in range(1, LARGEST + 1) if number not in HELD_OUT][
        : 4 if arguments.smoke else None
    ]
    with TinkerScript(
        arguments.base_model,
        name="guess the number",
        grpo_n=4 if arguments.smoke else 8,
        tasks_per_batch=4,
        learning_rate=3e-5,
        max_context_length=512,
        max_tokens=8,
        seed=arguments.seed,
    ) as session:
        before = session.evaluate(
            agent, HELD_OUT, attempts=1 if arguments.smoke else 12, task_name=str
        )
        session.rollouts(
            agent, train, epochs=1 if arguments.smoke else arguments.epochs, task_name=str
        )
        after = session.evaluate(
            agent, HELD_OUT, attempts=1 if arguments.smoke else 12, task_name=str
        )
        tuned = session.download_tuned_model("guess-number-model")
        print(session.plot("guess-number.png"))
    shares = f"{before.success_rate:.0%} before, {after.success_rate:.0%} after"
    print(f"held out, solved: {shares}; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
