"""Claude Code and Codex from npm, unmodified, against the whole gateway: three turns with a tool
are one exact timeline under the chat templates of three families, and a second process that resumes
them goes on in it where the template lets it.
"""

import os
import shutil
from pathlib import Path

import pytest
from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import Environment, build_node
from agents.matrix import odd
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.programs import program_output

pytestmark = pytest.mark.nightly
# the tokenizer is small: a letter is most of a token
ROOM = {"max_context_length": 131_072, "max_tokens": 4096}
THOUGHTS = {
    "qwen2_5": "",
    "qwen3": "<think>\nI look.\n</think>\n\n",
    "qwen3_6": "I look.\n</think>\n\n",
}
AGENTS = ["claude-code", "codex"]
AGENT_S = 120.0
CONFIG = """
model = "{model}"
model_provider = "tinkerscript"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.tinkerscript]
name = "TinkerScript"
base_url = "{base_url}"
env_key = "EPISODE_KEY"
wire_api = "responses"
"""
# Nothing is sent anywhere but to the gateway.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "TERM": "dumb",
}
COMMANDS = {
    "claude-code": ["claude", "--allowedTools=Bash", "-p"],
    "codex": [
        "codex",
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
    ],
}
RESUMED = {"claude-code": ["--continue"], "codex": ["resume", "--last"]}


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the two programs."""
    built: dict[str, Environment] = build_node(AGENTS, reuse=True)
    if trouble := next((each.trouble for each in built.values() if each.trouble), ""):
        pytest.skip(f"npm: {trouble}")
    return built[AGENTS[0]].folder / "node_modules" / ".bin"


def call(agent: str, family: str, command: str) -> str:
    """A call of the agent's shell as the family's model writes it."""
    name, argument = ("Bash", "command") if agent == "claude-code" else ("exec_command", "cmd")
    if family == "qwen3_6":
        inside = f"<function={name}>\n<parameter={argument}>\n{command}\n</parameter>\n</function>"
    else:
        inside = f'{{"name": "{name}", "arguments": {{"{argument}": "{command}"}}}}'
    return f"{THOUGHTS[family]}<tool_call>\n{inside}\n</tool_call>"


async def play(
    agent: str, gateway: Gateway, key: str, home: Path, prompt: str, *more: str, programs: Path
) -> str:
    """What one process of ``agent`` prints; it ends well."""
    home.mkdir(exist_ok=True)
    base_url = f"http://{gateway.address}"
    environment = (
        ENVIRONMENT | QUIET | {"HOME": str(home), "PATH": os.environ["PATH"], "EPISODE_KEY": key}
    )
    if agent == "codex":
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(
            CONFIG.format(model=MODEL, base_url=f"{base_url}/v1")
        )
    else:
        environment |= {
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_AUTH_TOKEN": key,
            "ANTHROPIC_MODEL": MODEL,
        }
    program, *arguments = COMMANDS[agent]
    command = [str(programs / program), *arguments, *more, prompt]
    return await program_output(*command, cwd=home, env=environment, deadline_s=AGENT_S)


@pytest.mark.parametrize("family", THOUGHTS)
@pytest.mark.parametrize("agent", AGENTS)
async def test_three_turns_are_one_exact_timeline_and_a_resume_goes_on(
    tmp_path: Path, programs: Path, agent: str, family: str
) -> None:
    async with running_gateway(tmp_path / "gateway", family=family, **ROOM) as gateway:
        texts = [call(agent, family, f"echo turn {n}") for n in (1, 2)]
        texts += [f"{THOUGHTS[family]}{text}" for text in ("All done.", "Done again.")]
        gateway.engine.say(*(odd(gateway, text) for text in texts))
        begun = await gateway.begin()
        home = tmp_path / "home"
        said = await play(
            agent, gateway, begun["api_key"], home, "Say turn 1 and turn 2.", programs=programs
        )
        assert "All done." in said, said
        more = RESUMED[agent]
        said = await play(
            agent, gateway, begun["api_key"], home, "Say it again.", *more, programs=programs
        )
        assert "Done again." in said, said
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert [each.drift for each in calls[:3]] == [None] * 3
        # templates of thinking models drop the thoughts before the last question
        if drift := calls[3].drift:
            assert THOUGHTS[family] and drift["cause"] == "template", drift
        assert timelines_of(calls) == ([[0, 1, 2], [3]] if THOUGHTS[family] else [[0, 1, 2, 3]])
        assert all(each.options["labels"] for each in calls)
        await check_record(gateway, begun["episode_id"], gateway.engine.requests)
        assert "turn 2" in gateway.renderer.decode(gateway.engine.requests[2].prompt_ids)
    shutil.rmtree(tmp_path, ignore_errors=True)
