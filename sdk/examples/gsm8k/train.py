"""Word problems with numbers: an exact-match reward, and a held-out part of the file.

``python train.py`` trains; ``--data`` reads another file, such as GSM8K's; ``--smoke`` plays a few
games to see that everything is connected.
"""

import argparse
import re
from pathlib import Path

from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check
from tinkerscript.datasets import rows_read

BASE_MODEL = "SmolLM2-135M-Instruct"
PROBLEMS = Path(__file__).with_name("problems.jsonl")
ASKED = "Solve the problem in one short line. End with the number alone.\n\n{}"
TOKENS = 48  # of an answer
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def agent(row: dict[str, str], episode) -> WorkflowOutput:
    """One question, one answer: 1 when its last number is the right one, else 0."""
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model,
            messages=[{"role": "user", "content": ASKED.format(row["question"])}],
            max_tokens=TOKENS,
        )
    right = last_number(reply.choices[0].message.content or "") == last_number(row["answer"])
    return WorkflowOutput(reward=float(right), is_success=right)


def last_number(text: str) -> float | None:
    """The last number of a text, as in "... #### 1,234"; None when there is none."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument(
        "--data", type=Path, default=PROBLEMS, help="a file with columns question, answer, split"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="four problems, one step")
    arguments = parser.parse_args()
    png_check()
    read = ("train", "test")
    train, held_out = (
        rows_read(arguments.data, split=split, columns=["question", "answer"]) for split in read
    )
    if arguments.smoke:
        train, held_out = train[:4], held_out[:2]
    with TinkerScript(
        arguments.base_model,
        name="gsm8k",
        seed=arguments.seed,
        grpo_n=4 if arguments.smoke else 8,
        tasks_per_batch=4 if arguments.smoke else 8,
        learning_rate=3e-5,
        max_context_length=256,
        max_tokens=TOKENS,
    ) as session:
        before = session.evaluate(agent, held_out)
        session.rollouts(agent, train, epochs=1 if arguments.smoke else arguments.epochs)
        after = session.evaluate(agent, held_out)
        tuned = session.download_tuned_model("gsm8k-model")
        print(session.plot("gsm8k.png"))
    shares = f"{before.success_rate:.0%} before, {after.success_rate:.0%} after"
    print(f"held out, solved: {shares}; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
