"""Coding agents from npm and PyPI, unmodified, against the whole gateway, with the files and the
commands of docs/howto/coding-agents.md: three turns with a tool are one exact timeline, and a
second process that resumes them goes on in it where the template lets it.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import ROOT, build_all
from agents.matrix import odd
from gpu_runtime.interfaces import SamplingOptions
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.programs import program_output
from tinkerscript.episodes.agent_environment import AGENTS, agent_environment
from tinkerscript.wire.episodes import EpisodeBegun

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
# the tokenizer is small: a letter is most of a token
LENGTH, ANSWER = 262_144, 4096
THOUGHTS = {"qwen2_5": "", "qwen3_6": "I look.\n</think>\n\n"}
PAGE = (ROOT / "docs" / "howto" / "coding-agents.md").read_text()
FIRST, AGAIN, AGENT_S = "Say turn 1 and turn 2.", "Say it again.", 150.0
SUBMITS = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo All done."


def _command(line: str) -> dict[str, Any]:
    return {"command": line}


@dataclass(frozen=True)
class Harness:
    """``heading`` is its section of the page, ``settings`` where the section's file belongs in its
    home, ``shell`` its tool, ``given`` that tool's arguments for a line of a shell.

    ``submits``: its last turn is a command too. ``rewrites``: its second process sends another
    first message.
    """

    heading: str
    shell: str
    given: Callable[[str], dict[str, Any]] = _command
    settings: str = ""
    submits: bool = False
    rewrites: bool = False


HARNESSES = {
    "opencode": Harness(
        "OpenCode", "bash", lambda line: {"command": line, "description": "say"}, "opencode.json"
    ),
    "pi": Harness("Pi", "bash", settings=".pi/agent/models.json"),
    "continue": Harness("Continue", "Bash", settings="config.yaml"),
    "cline": Harness(
        "Cline",
        "run_commands",
        lambda line: {"commands": [line]},
        ".cline/data/settings/global-settings.json",
    ),
    "qwen-code": Harness(
        "Qwen Code",
        "run_shell_command",
        lambda line: {"command": line, "is_background": False},
        ".qwen/settings.json",
        rewrites=True,
    ),
    "openhands": Harness(
        "OpenHands", "terminal", lambda line: {"command": line, "security_risk": "LOW"}
    ),
    "mini-swe-agent": Harness("mini-swe-agent", "bash", submits=True),
    "mistral-vibe": Harness("Mistral Vibe", "bash", settings=".vibe/config.toml"),
}


@pytest.fixture(scope="module")
def programs() -> str:
    """A search path with the programs."""
    built = build_all(sorted(HARNESSES), reuse=True)
    if trouble := next((each.trouble for each in built.values() if each.trouble), ""):
        pytest.skip(trouble)
    folders = {each.folder for each in built.values()}
    places = [str(folder / inside) for folder in folders for inside in ("node_modules/.bin", "bin")]
    return os.pathsep.join([*places, os.environ["PATH"]])


def shown(harness: Harness, language: str) -> str:
    """What the agent's section of the page has in its first block of ``language``."""
    section = PAGE.partition(f"\n## {harness.heading}\n")[2].partition("\n## ")[0]
    found = re.search(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found, (harness.heading, language)
    return found[1]


def scripted(
    gateway: Gateway, harness: Harness, family: str
) -> Callable[[Sequence[int], SamplingOptions], list[int]]:
    """What the model writes: two calls of the shell, then the end; a title where there are no
    tools."""

    def call(line: str) -> str:
        given = harness.given(line)
        if family == "qwen2_5":
            inside = json.dumps({"name": harness.shell, "arguments": given})
        else:
            texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}
            values = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in texts.items())
            inside = f"<function={harness.shell}>\n{values}</function>"
        return f"<tool_call>\n{inside}\n</tool_call>"

    def answer(prompt_ids: Sequence[int], options: SamplingOptions) -> list[int]:
        prompt = gateway.renderer.decode(prompt_ids, special=True)
        results = prompt.count("<tool_response>")
        if "<tools>" not in prompt:
            text = "Title."
        elif AGAIN in prompt:
            text = "Done again."
        elif results < 2:
            text = call(f"echo turn {results + 1}")
        else:
            text = call(SUBMITS) if harness.submits else "All done."
        return odd(gateway, THOUGHTS[family] + text)

    return answer


def commands(harness: Harness) -> list[tuple[str, str]]:
    """The page's lines with the prompts of this test, each with what its process prints at its
    end."""
    found = []
    for line in shown(harness, "bash").splitlines():
        if "Make the tests pass." in line:
            found.append((line.replace("Make the tests pass.", FIRST), "All done."))
        elif "Now the linter." in line:
            found.append((line.replace("Now the linter.", AGAIN), "Done again."))
        else:
            found.append((line, ""))
    return found


@pytest.mark.parametrize("family", THOUGHTS)
@pytest.mark.parametrize("name", HARNESSES)
async def test_three_turns_are_one_exact_timeline_and_a_resume_goes_on(
    tmp_path: Path, programs: str, name: str, family: str
) -> None:
    harness, home = HARNESSES[name], tmp_path / "home"
    room: dict[str, Any] = {"max_context_length": LENGTH, "max_tokens": ANSWER}
    async with running_gateway(tmp_path / "gateway", family=family, **room) as gateway:
        gateway.engine.answer = scripted(gateway, harness, family)
        begun = await gateway.begin()
        base_url = f"http://{gateway.address}/v1"
        episode = EpisodeBegun(
            episode_id=begun["episode_id"], api_key=begun["api_key"], base_url=base_url, model=MODEL,
            policy_version=0, idle_timeout_s=1.0, deadline_s=1.0, max_context_length=LENGTH,
        )  # fmt: skip
        own = ENVIRONMENT | {"HOME": str(home), "PATH": programs, "TERM": "dumb", "COLUMNS": "200"}
        environment = agent_environment(episode, name if name in AGENTS else None, own)
        home.mkdir()
        if harness.settings:
            language = "toml" if harness.settings.endswith(".toml") else "json"
            text = shown(harness, language).replace("your-model", MODEL)
            text = text.replace("https://your-server/openai/v1", base_url)
            text = text.replace("32768", str(LENGTH)).replace("2048", str(ANSWER))
            path = home / harness.settings
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        lines = commands(harness)
        for line, end in lines:
            said = await program_output(
                "bash", "-c", line, cwd=home, env=environment, deadline_s=AGENT_S
            )
            assert end in said, said
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert gateway.journal.episodes.refused_of([begun["episode_id"]]) == {}
        played = [n for n, each in enumerate(calls) if each.options.get("tools")]
        first, resumed = played[:3], played[3:4]
        assert len(resumed) == len([end for _, end in lines if end == "Done again."])
        assert [calls[n].drift for n in first] == [None] * 3
        # templates of thinking models drop the thoughts before the last question
        apart = THOUGHTS[family] or harness.rewrites
        whole = [first, resumed] if apart else [first + resumed]
        found = [each for each in timelines_of(calls) if each[0] in first + resumed]
        assert found == [each for each in whole if each]
        if resumed and (drift := calls[resumed[0]].drift):
            assert apart and (drift["cause"] == "template" or harness.rewrites), drift
        last = gateway.renderer.decode(calls[first[2]].prompt_ids_P, special=True)
        assert "turn 2" in last.rpartition("<tool_response>")[2]  # the command was run
        await check_record(gateway, begun["episode_id"], gateway.engine.requests)
