"""What an agent that is a program reads of its environment: the episode's address and key, and what
keeps it from sending anything elsewhere.

Sources: the packages themselves, Claude Code 2.1.332, Codex 0.171.0, OpenHands CLI 1.16.0,
mini-swe-agent 2.4.6, Cline 3.0.65, OpenCode 1.18.33, Pi 0.73.1, Continue 1.5.47, Qwen Code 0.24.4.
"""

import os
from collections.abc import Callable, Mapping

import httpx

from tinkerscript.connection.proxies import NO_PROXY, is_loopback, past_proxies
from tinkerscript.errors import InvalidRequest
from tinkerscript.wire.episodes import EpisodeBegun

NOT_FOR_AGENTS = {"TINKERSCRIPT_API_KEY", "ANTHROPIC_AUTH_TOKEN"}
CODEX_KEY = "EPISODE_KEY"  # the ``env_key`` of its configuration
Variables = dict[str, str]


def agent_environment(
    begun: EpisodeBegun, agent: str | None, environ: Mapping[str, str] = os.environ
) -> Variables:
    """``environ`` for an agent of the episode; ``agent`` adds what that one reads beyond the usual
    names.

    Raises InvalidRequest for an agent that is not in AGENTS.
    """
    if agent is not None and agent not in AGENTS:
        raise InvalidRequest(
            f"There is no agent {agent!r}.",
            hint=f"Those with variables of their own are {', '.join(AGENTS)}; any other reads "
            "those of environment().",
        )
    ours = {
        "OPENAI_BASE_URL": begun.base_url,
        "OPENAI_API_BASE": begun.base_url,
        "OPENAI_API_KEY": begun.api_key,
        "OPENAI_MODEL": begun.model,
        "ANTHROPIC_BASE_URL": begun.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": begun.api_key,
        "ANTHROPIC_MODEL": begun.model,
    }
    own = [httpx.URL(begun.base_url).host] if is_loopback(begun.base_url) else []
    if past := past_proxies(own, environ):
        ours |= dict.fromkeys(NO_PROXY, past)
    kept = {name: value for name, value in environ.items() if name not in NOT_FOR_AGENTS}
    return AGENTS[agent](begun, kept | ours) if agent is not None else kept | ours


def _claude_code(begun: EpisodeBegun, usual: Variables) -> Variables:
    """Its tool search would change the tools in mid-conversation, and an unknown model has a
    context of a million tokens to it. Of two keys it asks which one is meant."""
    del usual["ANTHROPIC_API_KEY"]
    length = begun.max_context_length
    return usual | {
        "ANTHROPIC_AUTH_TOKEN": begun.api_key,
        "ANTHROPIC_SMALL_FAST_MODEL": begun.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        **({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(length)} if length is not None else {}),
    }


def _codex(begun: EpisodeBegun, usual: Variables) -> Variables:
    return usual | {CODEX_KEY: begun.api_key}


def _openhands(begun: EpisodeBegun, usual: Variables) -> Variables:
    return (
        usual
        | _litellm()
        | {
            "LLM_MODEL": f"openai/{begun.model}",
            "LLM_BASE_URL": begun.base_url,
            "LLM_API_KEY": begun.api_key,
            "OPENHANDS_SUPPRESS_BANNER": "1",
        }
    )


def _mini_swe_agent(begun: EpisodeBegun, usual: Variables) -> Variables:
    return (
        usual
        | _litellm()
        | {
            "MSWEA_MODEL_NAME": f"openai/{begun.model}",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
        }
    )


def _switches(**variables: str) -> Callable[[EpisodeBegun, Variables], Variables]:
    """For an agent whose address and key are in the usual variables, or in a file of its own."""
    return lambda begun, usual: usual | variables


def _litellm() -> Variables:
    """Without this variable it fetches prices from GitHub."""
    return {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


AGENTS = {
    "claude-code": _claude_code,
    "codex": _codex,
    "openhands": _openhands,
    "mini-swe-agent": _mini_swe_agent,
    # Without the second one it leaves a process behind, which serves its later sessions.
    "cline": _switches(CLINE_NO_AUTO_UPDATE="1", CLINE_SESSION_BACKEND_MODE="local"),
    "opencode": _switches(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1"),
    "pi": _switches(PI_OFFLINE="1"),
    "continue": _switches(CONTINUE_TELEMETRY_ENABLED="0"),
    "qwen-code": _switches(QWEN_CODE_SUPPRESS_YOLO_WARNING="1"),
}
