"""Coding agents from npm that speak OpenAI's chat dialect, unmodified, against the whole gateway:
three turns with a shell are one exact timeline, and a second process that resumes them goes on in
it where the template lets it.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import Environment, build_node
from agents.matrix import odd
from gpu_runtime.interfaces import SamplingOptions
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.programs import program_output

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
# the tokenizer is small: a letter is most of a token
LENGTH, ANSWER = 262_144, 4096
THOUGHTS = {"qwen2_5": "", "qwen3_6": "I look.\n</think>\n\n"}
AGAIN, AGENT_S = "Say it again.", 120.0


def _opencode(home: Path, url: str, key: str) -> None:
    model = {"name": MODEL, "limit": {"context": LENGTH, "output": ANSWER}}
    options = {"baseURL": url, "apiKey": key}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {MODEL: model}}
    told = {"autoupdate": False, "share": "disabled", "provider": {"tinkerscript": provider}}
    (home / "opencode.json").write_text(json.dumps(told | {"permission": "allow"}))


def _pi(home: Path, url: str, key: str) -> None:
    model = {"id": MODEL, "name": MODEL, "contextWindow": LENGTH, "maxTokens": ANSWER}
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": key, "models": [model]}
    (home / ".pi" / "agent").mkdir(parents=True)
    path = home / ".pi" / "agent" / "models.json"
    path.write_text(json.dumps({"providers": {"tinkerscript": provider}}))


def _continue(home: Path, url: str, key: str) -> None:
    model = {"name": MODEL, "provider": "openai", "model": MODEL, "apiBase": url, "apiKey": key}
    model |= {"roles": ["chat"], "capabilities": ["tool_use"]}
    model |= {"defaultCompletionOptions": {"contextLength": LENGTH, "maxTokens": ANSWER}}
    told = {"name": "t", "version": "1.0.0", "schema": "v1", "models": [model]}
    (home / "config.yaml").write_text(json.dumps(told))  # JSON is YAML


@dataclass(frozen=True)
class Harness:
    """``shell`` and ``argument`` name its tool, ``more`` are the options of a resume."""

    program: str
    options: tuple[str, ...]
    more: tuple[str, ...]
    shell: str
    set_up: Callable[[Path, str, str], None]
    argument: str = "command"
    environment: dict[str, str] = field(default_factory=dict)


HARNESSES = {
    "opencode": Harness(
        "opencode",
        ("run", "-m", f"tinkerscript/{MODEL}"),
        ("-c",),
        "bash",
        _opencode,
        environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
    "pi": Harness(
        "pi",
        ("--provider", "tinkerscript", "--model", MODEL, "-p"),
        ("-c",),
        "bash",
        _pi,
        environment={"PI_OFFLINE": "1"},
    ),
    "continue": Harness(
        "cn",
        ("--auto", "--config", "config.yaml", "-p"),
        ("--resume",),
        "Bash",
        _continue,
        environment={"CONTINUE_TELEMETRY_ENABLED": "0"},
    ),
}


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs."""
    built: dict[str, Environment] = build_node(sorted(HARNESSES), reuse=True)
    if trouble := next((each.trouble for each in built.values() if each.trouble), ""):
        pytest.skip(f"npm: {trouble}")
    return built["pi"].folder / "node_modules" / ".bin"


def scripted(
    gateway: Gateway, harness: Harness, family: str
) -> Callable[[Sequence[int], SamplingOptions], list[int]]:
    """What the model writes: two calls of the shell, then the end; a title where there are no
    tools."""

    def call(number: int) -> str:
        given = {harness.argument: f"echo turn {number}", "description": "say"}
        if family == "qwen2_5":
            inside = json.dumps({"name": harness.shell, "arguments": given})
        else:
            values = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in given.items())
            inside = f"<function={harness.shell}>\n{values}</function>"
        return f"<tool_call>\n{inside}\n</tool_call>"

    def answer(prompt_ids: Sequence[int], options: SamplingOptions) -> list[int]:
        prompt = gateway.renderer.decode(prompt_ids, special=True)
        results = prompt.count("<tool_response>")
        if "<tools>" not in prompt:
            text = "Title."
        elif AGAIN in prompt:
            text = "Done again."
        else:
            text = call(results + 1) if results < 2 else "All done."
        return odd(gateway, THOUGHTS[family] + text)

    return answer


@pytest.mark.parametrize("family", THOUGHTS)
@pytest.mark.parametrize("name", HARNESSES)
async def test_three_turns_are_one_exact_timeline_and_a_resume_goes_on(
    tmp_path: Path, programs: Path, name: str, family: str
) -> None:
    harness, home = HARNESSES[name], tmp_path / "home"
    room: dict[str, Any] = {"max_context_length": LENGTH, "max_tokens": ANSWER}
    async with running_gateway(tmp_path / "gateway", family=family, **room) as gateway:
        gateway.engine.answer = scripted(gateway, harness, family)
        begun = await gateway.begin()
        home.mkdir()
        harness.set_up(home, f"http://{gateway.address}/v1", begun["api_key"])
        environment = ENVIRONMENT | harness.environment
        environment |= {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb"}
        command = [str(programs / harness.program), *harness.options]
        for more, prompt, end in (
            ((), "Say turn 1 and turn 2.", "All done."),
            (harness.more, AGAIN, "Done again."),
        ):
            said = await program_output(
                *command, *more, prompt, cwd=home, env=environment, deadline_s=AGENT_S
            )
            assert end in said, said
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        played = [n for n, each in enumerate(calls) if each.options.get("tools")]
        first, resumed = played[:3], played[3:]
        assert len(resumed) == 1 and [calls[n].drift for n in first] == [None] * 3
        # templates of thinking models drop the thoughts before the last question
        whole = [first, resumed] if THOUGHTS[family] else [played]
        assert [each for each in timelines_of(calls) if each[0] in played] == whole
        if drift := calls[resumed[0]].drift:
            assert THOUGHTS[family] and drift["cause"] == "template", drift
        await check_record(gateway, begun["episode_id"], gateway.engine.requests)
