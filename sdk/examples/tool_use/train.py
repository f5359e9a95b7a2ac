"""A search tool: the model learns to look up what it cannot know, by native tool calls.

``python train.py`` trains; ``--smoke`` plays a few games to see that everything is connected.
"""

import argparse
import json
from pathlib import Path

from index import Index, words
from openai import OpenAI

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import png_check
from tinkerscript.datasets import rows_read

BASE_MODEL = "SmolLM2-135M-Instruct"
QUESTIONS = Path(__file__).with_name("questions.jsonl")
TURNS, TOKENS = 3, 48
SYSTEM = "Look the answer up with the function search, then reply with the answer alone."
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search articles about lighthouses.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
}
INDEX = Index()


def agent(row: dict[str, str], episode) -> WorkflowOutput:
    """Asks until the model replies in words. 1 for the answer, 0.1 more for one that was looked up,
    else 0.
    """
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["question"]}]
    said, searches = "", 0
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        for _turn in range(TURNS):
            reply = client.chat.completions.create(
                model=episode.model, messages=messages, tools=[SEARCH], max_tokens=TOKENS
            )
            message = reply.choices[0].message
            if not message.tool_calls:
                said = message.content or ""
                break
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = run(call.function.name, call.function.arguments)
                searches += result is not None
                content = (
                    "There is no such function, or its arguments are wrong."
                    if result is None
                    else result
                )
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    right = row["answer"].lower() in words(said)
    parts = {"answer": float(right), "search": 0.1 if searches else 0.0}
    return WorkflowOutput(
        reward=sum(parts.values()),
        reward_parts=parts,
        is_success=right,
        metrics={"searches": searches},
    )


def run(name: str, arguments: str) -> str | None:
    """What the model's call returns; None for one that cannot be made."""
    try:
        query = json.loads(arguments)["query"]
    except (ValueError, KeyError, TypeError):
        return None
    return INDEX.search(query) if name == "search" and isinstance(query, str) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default=BASE_MODEL)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="two questions, one step")
    arguments = parser.parse_args()
    png_check()
    train, held_out = (
        rows_read(QUESTIONS, split=s, columns=["question", "answer"]) for s in ("train", "test")
    )
    if arguments.smoke:
        train, held_out = train[:2], held_out[:1]
    with TinkerScript(
        arguments.base_model,
        name="tool use",
        seed=arguments.seed,
        grpo_n=2 if arguments.smoke else 8,
        tasks_per_batch=2 if arguments.smoke else 4,
        learning_rate=3e-5,
        max_context_length=1024,
        max_tokens=TOKENS,
    ) as session:
        before = session.evaluate(agent, held_out)
        session.rollouts(agent, train, epochs=1 if arguments.smoke else arguments.epochs)
        after = session.evaluate(agent, held_out)
        tuned = session.download_tuned_model("tool-use-model")
        print(session.plot("tool-use.png"))
    shares = f"{before.success_rate:.0%} before, {after.success_rate:.0%} after"
    print(f"held out, right: {shares}; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
