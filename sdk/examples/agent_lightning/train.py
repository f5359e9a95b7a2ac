"""Trains an agent of Agent-lightning 1.0, a program of its own: ``python train.py``; ``--smoke``
takes one step.
"""

import argparse
import shlex
import sys
from pathlib import Path

from contract import run

from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.curve import curve

AGENT = shlex.join([sys.executable, str(Path(__file__).with_name("agent.py"))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--agent", default=AGENT, help="the command that runs the agent; its task is in NUMBER"
    )
    parser.add_argument("--base-model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--runners", type=int, default=8, help="agents that run side by side")
    parser.add_argument(
        "--host", default="127.0.0.1", help="where rewards are listened for; 0.0.0.0: every address"
    )
    parser.add_argument(
        "--public-url", default="", help="how agents elsewhere reach it: http://10.0.0.5:{port}"
    )
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    numbers = [str(number) for number in range(2 if arguments.smoke else arguments.tasks)]

    def agent(number: str, episode) -> WorkflowOutput:
        listening = {"host": arguments.host, "public_url": arguments.public_url}
        return run(shlex.split(arguments.agent), episode, **listening, NUMBER=number)

    with TinkerScript(
        arguments.base_model,
        name="Agent-lightning 1.0",
        grpo_n=2 if arguments.smoke else 8,
        tasks_per_batch=2 if arguments.smoke else 8,
        learning_rate=3e-5,
        max_context_length=256,
        max_tokens=16,
        model_names="any",  # such agents name their model "auto"
    ) as session:
        before = session.evaluate(agent, numbers[:8], workers=arguments.runners)
        session.rollouts(agent, numbers, workers=arguments.runners)
        tuned = session.download_tuned_model("agent-lightning-model")
        rewards = [event.data["reward_mean"] for event in session.events(kinds=["metric"])]
    print(curve(rewards, title="mean reward by step"))
    print(f"{before.mean:.2f} before; the model lies in {tuned.path}")


if __name__ == "__main__":
    main()
