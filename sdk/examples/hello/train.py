"""Hello: the model learns to say which number it is. The smallest agent there is, with a reward
that can be negative.

``python train.py`` trains; ``--queue`` lets runners on any machines play, ``tinkerscript worker
train:agent``; ``--smoke`` plays a few games to see that everything is connected.
"""

import argparse
import re

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check

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
    reward = score(reply.choices[0].message.content or "", number)
    return WorkflowOutput(reward=reward, is_success=reward == 1)


def score(said: str, number: str) -> float:
    """The number counts as a whole word: "I am 100" does not say 10."""
    text = said.lower().replace("’", "'")
    if re.search(rf"\bi(?: am|'m) {number}\b", text):
        return 1.0
    return -1.0 if re.search(rf"\bnot {number}\b", text) else 0.0


def played_here(session: TinkerScript, numbers: list[str], *, eval: bool) -> float:
    """Attempts at the numbers in threads of this program; their mean reward."""
    return (session.evaluate if eval else session.rollouts)(agent, numbers).mean


def played_by_workers(session: TinkerScript, numbers: list[str], *, eval: bool) -> float:
    """The same by whoever pulls from the queue; what has failed there is shown and in no mean."""
    if eval:
        return session.tasks.evaluate(numbers, timeout_s=3600).mean
    before = {episode.episode_id for episode in session.episodes()}
    session.tasks.put(numbers)
    for failure in session.tasks.wait(timeout_s=3600).failures:
        print(f"failed: {failure.name}: {failure.error}")
    new = [
        e.reward for e in session.episodes() if e.episode_id not in before and e.reward is not None
    ]
    session.flush()
    return sum(new) / len(new) if new else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument(
        "--tasks", type=int, default=96, help="numbers to train on, from 0 (at most 1000)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--queue", action="store_true", help="put the numbers into the queue that workers pull from"
    )
    parser.add_argument("--smoke", action="store_true", help="four tasks, one step")
    arguments = parser.parse_args()
    png_check()
    train = [str(number) for number in TRAIN[: 4 if arguments.smoke else arguments.tasks]]
    held_out = [str(number) for number in HELD_OUT[: 2 if arguments.smoke else None]]
    play = played_by_workers if arguments.queue else played_here
    with TinkerScript(
        arguments.base_model,
        name="hello",
        seed=arguments.seed,
        grpo_n=4,
        tasks_per_batch=4 if arguments.smoke else 8,
        learning_rate=3e-5,
        max_context_length=256,
        max_tokens=16,
    ) as session:
        if arguments.queue:
            print(f"tinkerscript worker train:agent --session {session.id} --workers 8", flush=True)
        before = play(session, held_out, eval=True)
        play(session, train, eval=False)
        after = play(session, held_out, eval=True)
        tuned = session.download_tuned_model("hello-model")
        print(session.plot("hello.png"))
    print(f"held out: {before:.2f} before, {after:.2f} after; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
