"""Rewards from a judge: a model compares the attempts at one task with each other, where no rule
could.

``python train.py`` trains; ``--queue`` lets workers on any machines play and judge, ``tinkerscript worker train:agent
--judge train:rank``; ``--smoke`` plays a few games to see that everything is connected. The judge is any OpenAI
endpoint: JUDGE_BASE_URL, JUDGE_API_KEY and JUDGE_MODEL. Without one a stand-in that counts words does it.
"""

import argparse
import contextlib
import functools
import os

from openai import OpenAI
from stand_in import stand_in

from tinkerscript import LlmJudge, TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check

BASE_MODEL = "SmolLM2-135M-Instruct"
RUBRIC = "The explanation that is short, at most ten words, and names the thing is better."
NAMED = """
rain snow wind fire river sea hill tree leaf root seed bread milk salt honey egg apple clock lamp door key rope boat
train wheel bridge road book pen map coin drum bell song game ball cat dog horse cow bee bird fish frog moon sun star
sky stone sand glass iron gold wool shoe hat coat bed chair table spoon knife cup pot
"""
THINGS = NAMED.split()


def agent(thing: str, episode) -> str:
    """One question. It returns what the judge reads; the reward is the judge's."""
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model,
            messages=[{"role": "user", "content": f"Explain to a child: {thing}"}],
            max_tokens=32,
        )
    return reply.choices[0].message.content or ""


@functools.cache
def judge_of(url: str) -> LlmJudge:
    """The judge at an endpoint, of which a program has one."""
    key, model = os.environ.get("JUDGE_API_KEY", "none"), os.environ.get("JUDGE_MODEL", "stand-in")
    return LlmJudge(url, key, model, rubric=RUBRIC)


def rank(thing: str, texts: list[str]) -> list[WorkflowOutput]:
    """For a worker: the judge at JUDGE_BASE_URL."""
    return judge_of(os.environ["JUDGE_BASE_URL"])(thing, texts)


def played_by_workers(session: TinkerScript, things: list[str], epochs: int, url: str) -> None:
    """The attempts at a thing are played and judged by one worker; what has failed is printed and
    not rewarded.
    """
    print(
        f"tinkerscript worker train:agent --judge train:rank --session {session.id} --workers 8",
        flush=True,
    )
    print(f"with JUDGE_BASE_URL={url}", flush=True)
    for _ in range(epochs):
        session.tasks.put(things, judged=True)
        for failure in session.tasks.wait(timeout_s=3600).failures:
            print(f"failed: {failure.name}: {failure.error}")


def words_of(session: TinkerScript, things: list[str]) -> float:
    """Mean number of words of an answer, by episodes that are never trained: a measure that no
    judge makes.
    """

    def count(thing: str, episode) -> float:
        return float(len(agent(thing, episode).split()))

    return session.evaluate(count, things, name="words").mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--queue", action="store_true", help="put the things into the queue that workers pull from"
    )
    parser.add_argument("--smoke", action="store_true", help="four tasks, one step")
    arguments = parser.parse_args()
    png_check()
    held_out, train = (THINGS[:2], THINGS[2:6]) if arguments.smoke else (THINGS[:16], THINGS[16:])
    with contextlib.ExitStack() as stack:
        url = os.environ.get("JUDGE_BASE_URL") or stack.enter_context(stand_in())
        judge, epochs = judge_of(url), 1 if arguments.smoke else arguments.epochs
        session = stack.enter_context(
            TinkerScript(
                arguments.base_model,
                name="judge",
                seed=arguments.seed,
                grpo_n=4 if arguments.smoke else 8,
                tasks_per_batch=4,
                learning_rate=3e-5,
                max_context_length=256,
                max_tokens=32,
            )
        )
        before = words_of(session, held_out)
        if arguments.queue:
            played_by_workers(session, train, epochs, url)
            session.flush()
        else:
            session.rollouts(agent, train, epochs=epochs, judge=judge)
            print(f"judge: {judge.requests} requests, faults: {dict(judge.faults) or 'none'}")
        after = words_of(session, held_out)
        tuned = session.download_tuned_model("judge-model")
        print(session.plot("judge.png"))
    print(
        f"held out, words: {before:.1f} before, {after:.1f} after; the model lies in {tuned.path}"
    )


if __name__ == "__main__":
    main()
