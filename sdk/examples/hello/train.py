"""Hello: the model learns to say which number it is. The smallest agent there is, with a reward that can be negative.

``python train.py`` trains; ``--smoke`` plays a few games to see that everything is connected.
"""

import argparse
import re

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import curve

BASE_MODEL = "SmolLM2-135M-Instruct"
TRAIN, HELD_OUT = range(1000), range(1000, 1024)


def agent(number: str, episode) -> WorkflowOutput:
    """One question, one answer: 1 for "I am 7", -1 for "I am not 7", else 0."""
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model,
            messages=[{"role": "user", "content": f"Let's play a game. Say you are {number}."}],
            max_tokens=16,
        )
    return WorkflowOutput(reward=score(reply.choices[0].message.content or "", number))


def score(said: str, number: str) -> float:
    """The number counts as a whole word: "I am 100" does not say 10."""
    text = said.lower().replace("’", "'")
    if re.search(rf"\bi(?: am|'m) {number}\b", text):
        return 1.0
    return -1.0 if re.search(rf"\bnot {number}\b", text) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--tasks", type=int, default=256, help="numbers to train on, from 0 (at most 1000)")
    parser.add_argument("--smoke", action="store_true", help="four tasks, one step")
    arguments = parser.parse_args()
    tasks, held_out = TRAIN[: 4 if arguments.smoke else arguments.tasks], HELD_OUT[: 2 if arguments.smoke else None]
    with TinkerScript(
        arguments.base_model, name="hello", grpo_n=4, tasks_per_batch=4 if arguments.smoke else 8,
        learning_rate=3e-5, max_context_length=256, max_tokens=16,
    ) as session:  # fmt: skip
        before = session.evaluate(agent, map(str, held_out))
        session.rollouts(agent, map(str, tasks))
        after = session.evaluate(agent, map(str, held_out))
        tuned = session.download_tuned_model("hello-model")
        rewards = [event.data["reward_mean"] for event in session.events(kinds=["metric"])]
    print(curve(rewards, title="mean reward by step"))
    print(f"held out: {before.mean:.2f} before, {after.mean:.2f} after; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
