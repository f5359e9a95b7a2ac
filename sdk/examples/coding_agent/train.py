"""Claude Code, Codex, mini-swe-agent or OpenHands repairs a module, and the module's tests are the
reward.

``python train.py --base-model NAME`` trains; ``--agent`` chooses the program, which is installed as
its maker says. ``--small`` trains the bundled model on repairs of one operator, with mini-swe-agent
and a prompt of 40 tokens.
"""

import argparse

import small_agent
from programs import COMMANDS, work
from repair import SMALL, SMALL_TASKS, TASKS, passed, prompt, small_prompt, working_copy

from tinkerscript import TinkerScript, WorkflowOutput

LENGTH = 32_768  # Claude Code's prompts begin with 6,500 tokens, Codex' with 12,400
ATTEMPT_S = 600.0
LARGE_OPTIONS = {
    "grpo_n": 8,
    "max_context_length": LENGTH,
    "max_tokens": 2048,
    "learning_rate": 1e-6,
}
SMALL_OPTIONS = {
    "grpo_n": 16,
    "max_context_length": 256,
    "max_tokens": 20,
    "learning_rate": 5e-5,
}


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


def small_attempt(task: str, episode) -> WorkflowOutput:
    """The same at a task of ``small``, by mini-swe-agent in this process."""
    with working_copy(SMALL) as folder:
        small_agent.work(small_prompt(task), task, folder / "repository", episode)
        share = passed(task, folder / "repository", SMALL)
    return WorkflowOutput(reward=share, is_success=share == 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", help="one that was trained for 32,768 tokens and for tools")
    parser.add_argument("--agent", choices=COMMANDS, default="claude-code")
    parser.add_argument("--small", action="store_true", help="on the bundled model; see above")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workers", type=int, default=8, help="attempts at one time on this machine"
    )
    arguments = parser.parse_args()
    if arguments.base_model is None and not arguments.small:
        parser.error("name a --base-model, or take --small")
    tasks, options = (
        (list(SMALL_TASKS), SMALL_OPTIONS) if arguments.small else (TASKS, LARGE_OPTIONS)
    )
    with TinkerScript(
        arguments.base_model or "SmolLM2-135M-Instruct",
        name=f"coding agent: {'small' if arguments.small else arguments.agent}",
        tasks_per_batch=len(tasks),
        seed=arguments.seed,
        **options,
    ) as session:

        def play(task: str, episode) -> WorkflowOutput:
            if arguments.small:
                return small_attempt(task, episode)
            return attempt(task, episode, agent=arguments.agent)

        report = session.rollouts(play, tasks, workers=arguments.workers, epochs=arguments.epochs)
        session.flush()
        print(report)
        print(session.plot())
        print(session.download_tuned_model())


if __name__ == "__main__":
    main()
