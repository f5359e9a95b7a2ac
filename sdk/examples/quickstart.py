"""A language model gets better at a task because this loop rewards it, on a machine without a GPU.

The task: is a short review positive or negative? The first label in an answer counts, however it is
put: 1 for the right one, -1 for the wrong one or none. The held-out score is the share of right
ones on reviews that were never trained on.

Run it with ``make quickstart``. To use a server that already runs, set TINKERSCRIPT_BASE_URL and
TINKERSCRIPT_API_KEY.
"""

import json
import os
import random
import re
import time

from local_server import how_to_look, running_server, stay_open
from openai import OpenAI
from progress import RewardProgress
from reviews import BLAME, HELD_OUT, PRAISE
from scoring import score_folder

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import curve

BASE_MODEL = "SmolLM2-135M-Instruct"
NUM_EPOCH, NUM_TASKS, GRPO_N, TASKS_PER_BATCH = 1, 64, 8, 4
MAX_TOKENS = 8
# mean reward of the latest 32 episodes: by then most groups are level and teach nothing
LEARNED = 0.95
SEED = int(os.environ.get("QUICKSTART_SEED", "0"))
QUESTION = 'Review: "{}" Is the review positive or negative? Answer with one word.'


def question(review: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": QUESTION.format(review)}]


def first_label(answer: str) -> str | None:
    """The first label that the answer names, if it names one."""
    named = re.search(r"\b(positive|negative)\b", answer.lower())
    return named[1] if named else None


def is_right(answer: str, label: str) -> bool:
    return first_label(answer) == label


def execute_agent(task: tuple[str, str], api_baseurl_key, **sampling) -> WorkflowOutput:
    """The agent: any code that calls an OpenAI client. This one asks a single question."""
    review, label = task
    base_url, api_key = api_baseurl_key
    with OpenAI(base_url=base_url, api_key=api_key) as client:
        reply = client.chat.completions.create(
            model=BASE_MODEL, messages=question(review), max_tokens=MAX_TOKENS, **sampling
        )
    said = first_label(reply.choices[0].message.content or "")
    return WorkflowOutput(reward=1.0 if said == label else -1.0, is_success=said == label)


def shuffled(order: random.Random) -> list[tuple[str, str]]:
    """Tasks of the run: praise and blame by turns, so that every batch holds both and neither label
    pays by itself.
    """
    pairs = zip(
        order.sample(PRAISE, NUM_TASKS // 2), order.sample(BLAME, NUM_TASKS // 2), strict=True
    )
    return [task for praise, blame in pairs for task in ((praise, "positive"), (blame, "negative"))]


def train(tinkerjet_remote: TinkerScript, progress: RewardProgress) -> None:
    """The loop on one thread, whose current episode the session keeps between begin and end."""

    def rollout(task):
        try:
            api_baseurl_key = tinkerjet_remote.begin_episode()
            # any OpenAI-compatible agent code
            workflow_output = execute_agent(task, api_baseurl_key)
            tinkerjet_remote.end_episode(workflow_output)
            return workflow_output.reward
        except Exception as error:  # noqa: BLE001 - an episode that fails is abandoned, the loop goes on
            print(f"Episode abandoned: {error}")
            return 0.0

    tasks = shuffled(random.Random(SEED))
    for _epoch in range(NUM_EPOCH):
        for task in tasks:
            for _run in range(GRPO_N):
                progress.advance(rollout(task))
            if progress.mean >= LEARNED:
                print(
                    f"Learned: the latest episodes have a mean reward of {progress.mean:.2f}, so "
                    "the loop ends here."
                )
                return


def held_out_score(tinkerjet_remote: TinkerScript) -> float:
    """Share of right greedy answers on reviews outside the training set, by episodes that are never
    trained. The console draws it beside the reward of training.
    """
    report = tinkerjet_remote.evaluate(
        lambda task, api_baseurl_key: execute_agent(task, api_baseurl_key, temperature=0.0),
        HELD_OUT,
        workers=16,
        task_name=lambda task: task[0],
        name="held-out reviews",
        progress=False,
    )
    return report.success_rate


def main() -> None:
    started = time.monotonic()
    with running_server() as server:
        print(
            f"Console: {server.base_url}   sign in as {server.sign_in}   (the server's log: "
            f"{server.log})"
        )
        print(f"Starting a session on {BASE_MODEL}: its engine loads now, about ten seconds.")
        with TinkerScript(
            base_model=BASE_MODEL,
            base_url=server.base_url,
            api_key=server.api_key,
            name="quickstart",
            seed=SEED,
            grpo_n=GRPO_N,
            tasks_per_batch=TASKS_PER_BATCH,
            learning_rate=3e-5,
            max_context_length=256,
            max_tokens=MAX_TOKENS,
            checkpoint_every_steps=8,
        ) as tinkerjet_remote:
            before = held_out_score(tinkerjet_remote)
            print(f"Held-out score before training: {before:.2f}")
            with RewardProgress(
                total=NUM_EPOCH * NUM_TASKS * GRPO_N, per_step=TASKS_PER_BATCH * GRPO_N
            ) as progress:
                train(tinkerjet_remote, progress)
            tuned_model_checkpoint = tinkerjet_remote.download_tuned_model(
                server.folder / "tuned_model"
            )
            held_out_score(tinkerjet_remote)  # by the engine; the folder's own is below
            tinkerjet_remote.plot(server.folder / "reward.svg")  # the picture of the first page
            rewards = [
                event.data["reward_mean"] for event in tinkerjet_remote.events(kinds=["metric"])
            ]
        print(curve(rewards, title="mean reward by step"))
        after = score_folder(
            tuned_model_checkpoint.path,
            [(question(text), label) for text, label in HELD_OUT],
            is_right,
            MAX_TOKENS,
        )
        third = max(1, len(rewards) // 3)
        result = {
            "reward_first_third": round(sum(rewards[:third]) / third, 4),
            "reward_last_third": round(sum(rewards[-third:]) / third, 4),
            "held_out_before": round(before, 4),
            "held_out_after": round(after, 4),
            "steps": len(rewards),
            "seconds": round(time.monotonic() - started, 1),
            "model_path": str(tuned_model_checkpoint.path),
        }
        print(
            f"Held-out score: {before:.2f} before, {after:.2f} after (the downloaded folder, by "
            "transformers)"
        )
        print(f"The tuned model lies in {tuned_model_checkpoint.path}")
        print(f"To look at the run in the console: {how_to_look(server)}")
        print(json.dumps(result))
        stay_open(server)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("\nStopped; no process is left behind.") from None
