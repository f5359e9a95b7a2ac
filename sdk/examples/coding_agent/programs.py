"""How each coding agent is run, from its own package, without a person at it.

They run what the model writes, with the rights of this process: use a container or an account of
its own for models that you do not trust.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

CODEX = """
model = "{model}"
model_provider = "tinkerscript"
model_context_window = {length}
web_search = "disabled"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.tinkerscript]
name = "TinkerScript"
base_url = "{base_url}"
env_key = "EPISODE_KEY"
wire_api = "responses"
"""
COMMANDS = {
    "claude-code": "claude --allowedTools=Bash,Read,Edit,Write "
    "--disallowedTools=WebSearch,WebFetch -p",
    "codex": "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox",
    "mini-swe-agent": "mini --yolo --exit-immediately --output ../trajectory.json --task",
    "openhands": "openhands --headless --override-with-envs --task",
}


def work(
    agent: str,
    prompt: str,
    folder: Path,
    environment: Mapping[str, str],
    *,
    length: int,
    timeout_s: float,
) -> str:
    """What ``agent`` printed. It works in ``folder/repository`` with ``folder/home`` for its own
    files, and is ended after ``timeout_s`` with all that it started.

    Raises RuntimeError for an agent that fails: its attempt is abandoned and no reward of 0.
    """
    home = folder / "home"
    if agent == "codex":
        (home / ".codex").mkdir()
        config = CODEX.format(
            model=environment["OPENAI_MODEL"],
            base_url=environment["OPENAI_BASE_URL"],
            length=length,
        )
        (home / ".codex" / "config.toml").write_text(config)
    variables = {
        **environment,
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "TERM": "dumb",
    }
    process = subprocess.Popen(
        [*COMMANDS[agent].split(), prompt],
        cwd=folder / "repository",
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"{agent} was ended after {timeout_s:g} s"  # what it has done counts
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        raise RuntimeError(f"{agent} ended with {process.returncode}: {said[-2000:]}")
    return said
