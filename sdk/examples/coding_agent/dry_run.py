"""One attempt at each task against any endpoint, which trains nothing: ``python dry_run.py --agent
codex``.

OPENAI_BASE_URL (which ends in /v1), OPENAI_API_KEY and OPENAI_MODEL name the endpoint; Claude Code
needs one that takes Anthropic's messages there too, as a served model of a TinkerScript server
does.
"""

import argparse
import os

from programs import COMMANDS
from repair import TASKS
from train import LENGTH, attempt

from tinkerscript.episodes.agent_environment import agent_environment
from tinkerscript.wire.episodes import EpisodeBegun


class Endpoint:
    """What ``attempt`` needs of an episode, for an endpoint that has none."""

    def __init__(self, length: int) -> None:
        self._length = length

    def environment(self, agent: str) -> dict[str, str]:
        address = {
            "base_url": os.environ["OPENAI_BASE_URL"],
            "api_key": os.environ["OPENAI_API_KEY"],
            "model": os.environ["OPENAI_MODEL"],
        }
        times = {"policy_version": 0, "idle_timeout_s": 0.0, "deadline_s": 0.0}
        begun = EpisodeBegun(episode_id="none", **address, **times, max_context_length=self._length)
        return agent_environment(begun, agent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agent", choices=COMMANDS, default="claude-code")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=TASKS)
    parser.add_argument(
        "--length", type=int, default=LENGTH, help="tokens of a prompt and its answer"
    )
    arguments = parser.parse_args()
    for task in arguments.tasks:
        endpoint = Endpoint(arguments.length)
        output = attempt(task, endpoint, agent=arguments.agent, length=arguments.length)
        print(f"{task}: reward {output.reward:g}")


if __name__ == "__main__":
    main()
