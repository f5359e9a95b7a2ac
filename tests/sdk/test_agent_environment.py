"""What an agent that is a program finds in its environment."""

import re
from pathlib import Path

import httpx
import pytest

from tinkerscript import InvalidRequest
from tinkerscript.episodes.agent_environment import AGENTS, agent_environment
from tinkerscript.wire.episodes import EpisodeBegun

BEGUN = EpisodeBegun(
    episode_id="epi_1",
    api_key="tml-ep-1",
    base_url="https://lab.example.org/openai/v1",
    model="base",
    policy_version=0,
    idle_timeout_s=1.0,
    deadline_s=1.0,
    max_context_length=32_768,
)
PAGE = Path(__file__).resolve().parents[2] / "docs/howto/coding-agents.md"
OWNERS = {"TINKERSCRIPT_API_KEY": "tml-owner", "ANTHROPIC_AUTH_TOKEN": "another", "PATH": "/bin"}


@pytest.mark.parametrize("agent", [None, *AGENTS])
def test_an_agent_has_the_episodes_address_and_key_and_no_other(agent: str | None) -> None:
    found = agent_environment(BEGUN, agent, OWNERS)
    assert (
        found["OPENAI_BASE_URL"] == "https://lab.example.org/openai/v1" and found["PATH"] == "/bin"
    )
    assert found["ANTHROPIC_BASE_URL"] == "https://lab.example.org/openai", (
        "Anthropic's clients add /v1"
    )
    assert "tml-owner" not in found.values() and "another" not in found.values()
    assert {value for name, value in found.items() if name.endswith(("_KEY", "_TOKEN"))} == {
        "tml-ep-1"
    }


def test_claude_code_has_one_key_and_the_sessions_length() -> None:
    found = agent_environment(BEGUN, "claude-code", OWNERS)
    assert found["ANTHROPIC_AUTH_TOKEN"] == "tml-ep-1" and "ANTHROPIC_API_KEY" not in found
    assert found["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32768"
    assert found["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == found["DISABLE_AUTOUPDATER"] == "1"
    older = agent_environment(
        BEGUN.model_copy(update={"max_context_length": None}), "claude-code", OWNERS
    )
    assert "CLAUDE_CODE_MAX_CONTEXT_TOKENS" not in older


@pytest.mark.parametrize(
    ("host", "given", "found"),
    [
        ("127.0.0.1", {}, "127.0.0.1"),
        ("127.0.0.1", {"NO_PROXY": "a.example"}, "a.example,127.0.0.1"),
        ("127.0.0.1", {"no_proxy": "b.example"}, "b.example,127.0.0.1"),
        (
            "127.0.0.1",
            {"no_proxy": "b.example 127.0.0.1", "NO_PROXY": "a.example, b.example"},
            "b.example,127.0.0.1,a.example",
        ),
        ("127.0.0.1", {"no_proxy": "*"}, "*"),
        ("127.0.0.1", {"NO_PROXY": "a.example,*"}, "*"),
        ("[::1]", {"NO_PROXY": "localhost,[::1]"}, "localhost,::1"),
        ("lab.example.org", {}, None),
        ("lab.example.org", {"no_proxy": "", "NO_PROXY": " "}, None),
        ("lab.example.org", {"NO_PROXY": "localhost,[::1],10.0.0.0/8"}, "localhost,::1,10.0.0.0/8"),
    ],
)
def test_an_agent_goes_past_proxies_where_its_owner_does_and_to_this_machine(
    host: str, given: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = BEGUN.model_copy(update={"base_url": f"http://{host}:8000/openai/v1"})
    environment = agent_environment(begun, None, given)
    wanted = {name: found for name in ("NO_PROXY", "no_proxy")} if found else given
    assert {n: v for n, v in environment.items() if n.lower() == "no_proxy"} == wanted
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    httpx.Client().close()  # what an agent of OpenAI's or Anthropic's client begins with


def test_an_unknown_agent_is_named_with_those_that_there_are() -> None:
    with pytest.raises(InvalidRequest) as caught:
        agent_environment(BEGUN, "cloud-code", OWNERS)
    assert (
        "'cloud-code'" in str(caught.value) and "claude-code, codex, openhands" in caught.value.hint
    )


def test_an_agent_has_the_variables_of_its_row_on_the_page() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    assert set(rows) == set(AGENTS)
    usual = agent_environment(BEGUN, None, OWNERS)
    for agent, row in rows.items():
        named = re.findall(
            r"`([A-Z_]+)(?:=([^`]+))?`", row.replace("in place of `ANTHROPIC_API_KEY`", "")
        )
        found = agent_environment(BEGUN, agent, OWNERS)
        assert {name for name, _ in named} == found.keys() - usual.keys(), agent
        for name, value in named:
            assert found[name] and value in ("", found[name]), name
