"""The example of coding agents, as a dry run: each program from npm or PyPI repairs a module of the
example's repository against the whole gateway with a scripted engine, and the module's tests are
the reward.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import ROOT, build_all
from agents.matrix import odd
from support.gateway_harness import MODEL, running_gateway
from support.programs import program_output

pytestmark = pytest.mark.timeout(600)
EXAMPLE = ROOT / "sdk" / "examples" / "coding_agent"
# the tokenizer is small: a letter is most of a token
ROOM = {"max_context_length": 131_072, "max_tokens": 4096}
# Each agent's shell, the name of its command, and what it takes beside that.
CALLS: dict[str, tuple[str, str, dict[str, str]]] = {
    "claude-code": ("Bash", "command", {}),
    "codex": ("exec_command", "cmd", {}),
    "mini-swe-agent": ("bash", "command", {}),
    "openhands": ("terminal", "command", {"security_risk": "LOW"}),
}
SUBMITS = {"mini-swe-agent": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}  # its end is a command
NPM = ["claude-code", "codex"]  # of `make test-all`
REPAIR = "sed -i 's/start < found/start <= found/' intervals.py"
RUN_S = 240.0


def programs(agent: str) -> str:
    """A search path with the agent's program."""
    names = NPM if agent in NPM else [agent]
    built = build_all(names, reuse=True)[agent]
    if built.trouble:
        pytest.skip(built.trouble)
    inside = "node_modules/.bin" if agent in NPM else "bin"
    return f"{built.folder / inside}{os.pathsep}{os.environ['PATH']}"


def written(agent: str, command: str) -> str:
    """A call of the agent's shell as the model writes it."""
    name, argument, more = CALLS[agent]
    call = json.dumps({"name": name, "arguments": {argument: command} | more})
    return f"<tool_call>\n{call}\n</tool_call>"


@pytest.mark.parametrize(("repairs", "reward"), [(True, "1"), (False, "0.8")])
@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(agent, marks=pytest.mark.system if agent in NPM else pytest.mark.nightly)
        for agent in CALLS
    ],
)
async def test_the_reward_is_the_share_of_tests_that_pass(
    tmp_path: Path, agent: str, repairs: bool, reward: str
) -> None:
    search_path = programs(agent)
    first = written(agent, REPAIR if repairs else "ls")
    last = written(agent, SUBMITS[agent]) if agent in SUBMITS else "Done."
    async with running_gateway(tmp_path / "gateway", family="qwen2_5", **ROOM) as gateway:
        gateway.engine.say(odd(gateway, first), odd(gateway, last))
        begun = await gateway.begin()
        address = {
            "OPENAI_BASE_URL": f"http://{gateway.address}/v1",
            "OPENAI_API_KEY": begun["api_key"],
        }
        places = {
            "PATH": search_path,
            "PYTHONPATH": str(ROOT / "sdk"),
        }
        options = [
            "--agent",
            agent,
            "--tasks",
            "intervals",
            "--length",
            str(ROOM["max_context_length"]),
        ]
        said = await program_output(
            sys.executable,
            "-B",
            str(EXAMPLE / "dry_run.py"),
            *options,
            cwd=tmp_path,
            env=ENVIRONMENT | address | places | {"OPENAI_MODEL": MODEL},
            deadline_s=RUN_S,
        )
        assert said.strip() == f"intervals: reward {reward}"
        assert timelines_of(gateway.journal.calls.of_episode(begun["episode_id"])) == [[0, 1]]
        await check_record(gateway, begun["episode_id"], gateway.engine.requests)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("answers", "reward", "calls"),
    [
        (["What is it?", "So `return a - b`, not a * b."], "1.0", 2),
        (["a + b or a - b", "a * b"], "0.0", 2),
        (["a - b"], "1.0", 1),
    ],
)
async def test_the_small_one_writes_the_expression_that_it_finds_in_an_answer(
    tmp_path: Path, answers: list[str], reward: str, calls: int
) -> None:
    built = build_all(["mini-swe-agent"], reuse=True)["mini-swe-agent"]
    if built.trouble:
        pytest.skip(built.trouble)
    async with running_gateway(tmp_path / "gateway", family="qwen2_5", **ROOM) as gateway:
        gateway.engine.say(*(odd(gateway, answer) for answer in [*answers, "Done.", "Done."]))
        begun = await gateway.begin()
        episode = {
            "base_url": f"http://{gateway.address}/v1",
            "api_key": begun["api_key"],
            "model": MODEL,
        }
        said = await program_output(
            str(built.folder / "bin" / "python"),
            "-B",
            "-c",
            "from types import SimpleNamespace; from train import small_attempt\n"
            f"print(small_attempt('rest', SimpleNamespace(**{episode})).reward)",
            cwd=tmp_path,
            env=ENVIRONMENT
            | {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'sdk'}{os.pathsep}{EXAMPLE}"},
            deadline_s=RUN_S,
        )
        assert said.strip().splitlines()[-1] == reward
        assert len(gateway.journal.calls.of_episode(begun["episode_id"])) == calls
        await check_record(gateway, begun["episode_id"], gateway.engine.requests)
