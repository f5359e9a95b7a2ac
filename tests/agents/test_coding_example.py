"""The example of coding agents, as a dry run: each program from npm repairs a module of the
example's repository against the whole gateway with a scripted engine, and the module's tests are
the reward.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import ROOT, Environment, build_node
from agents.matrix import odd
from support.gateway_harness import MODEL, running_gateway
from support.programs import program_output

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
EXAMPLE = ROOT / "sdk" / "examples" / "coding_agent"
# the tokenizer is small: a letter is most of a token
ROOM = {"max_context_length": 131_072, "max_tokens": 4096}
CALLS = {"claude-code": ("Bash", "command"), "codex": ("exec_command", "cmd")}
REPAIR = "sed -i 's/start < found/start <= found/' intervals.py"
RUN_S = 240.0


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the two programs."""
    built: dict[str, Environment] = build_node(list(CALLS), reuse=True)
    if trouble := next((each.trouble for each in built.values() if each.trouble), ""):
        pytest.skip(f"npm: {trouble}")
    return built["codex"].folder / "node_modules" / ".bin"


@pytest.mark.parametrize(("repairs", "reward"), [(True, "1"), (False, "0.8")])
@pytest.mark.parametrize("agent", CALLS)
async def test_the_reward_is_the_share_of_tests_that_pass(
    tmp_path: Path, programs: Path, agent: str, repairs: bool, reward: str
) -> None:
    name, argument = CALLS[agent]
    call = json.dumps({"name": name, "arguments": {argument: REPAIR if repairs else "ls"}})
    async with running_gateway(tmp_path / "gateway", family="qwen2_5", **ROOM) as gateway:
        gateway.engine.say(
            *(odd(gateway, text) for text in (f"<tool_call>\n{call}\n</tool_call>", "Done."))
        )
        begun = await gateway.begin()
        address = {
            "OPENAI_BASE_URL": f"http://{gateway.address}/v1",
            "OPENAI_API_KEY": begun["api_key"],
        }
        places = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
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
