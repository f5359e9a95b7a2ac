"""Claude Code, Codex, mini-swe-agent or OpenHands repairs a module, and the module's tests are the
reward.

``python train.py --base-model NAME`` trains; ``--agent`` chooses the program, which is installed as
its maker says.
"""

import argparse

from programs import COMMANDS, work
from repair import TASKS, passed, prompt, working_copy

from tinkerscript import TinkerScript, WorkflowOutput

LENGTH = 32_768  # Claude Code's prompts begin with 6,500 tokens, Codex' with 12,400
ATTEMPT_S = 600.0


def attempt(
    task: str, episode, *, agent: str, length: int = LENGTH, timeout_s: float = ATTEMPT_S
) -> WorkflowOutput:
    """One attempt at ``task``: the reward is the share of its tests that pass."""
    with working_copy() as folder:
        work(
            agent,
            prompt(task),
            folder,
            episode.environment(agent),
            length=length,
            timeout_s=timeout_s,
        )
        share = passed(task, folder / "repository")
    return WorkflowOutput(reward=share, is_success=share == 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base-model", required=True, help="one that was trained for 32,768 tokens and for tools"
    )
    parser.add_argument("--agent", choices=COMMANDS, default="claude-code")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--workers", type=int, default=8, help="attempts at one time on this machine"
    )
    arguments = parser.parse_args()
    with TinkerScript(
        arguments.base_model,
        name=f"coding agent: {arguments.agent}",
        grpo_n=8,
        tasks_per_batch=len(TASKS),
        max_context_length=LENGTH,
        max_tokens=2048,
        learning_rate=1e-6,
    ) as session:
        report = session.rollouts(
            lambda task, episode: attempt(task, episode, agent=arguments.agent),
            TASKS,
            workers=arguments.workers,
            epochs=arguments.epochs,
        )
        session.flush()
        print(report)
        print(session.download_tuned_model())


if __name__ == "__main__":
    main()
