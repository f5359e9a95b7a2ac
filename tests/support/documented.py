"""The Python that the README and the manual show: whole programs, and parts of programs with what
they are parts of.
"""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# By page and beginning: why it does not run alone. Everything else does, by
# tests/e2e/test_snippets.py.
FRAGMENTS = {
    (
        "docs/howto/agent-lightning.md",
        "import agentlightning",
    ): "a part of sdk/examples/agent_lightning",
    (
        "docs/howto/coding-agents.md",
        "import subprocess",
    ): "the model and the agent are the reader's",
    ("docs/howto/coding-agents.md", "import os"): "OpenHands stands in an environment of its own",
    (
        "docs/howto/evaluation.md",
        "report = session.evaluate",
    ): "one call of a session that is there",
    (
        "docs/howto/evaluation.md",
        "report = session.rollouts",
    ): "one call of a session that is there",
    (
        "docs/howto/evaluation.md",
        "with session.begin_episode(eval=True)",
    ): "it waits for a person at the keyboard",
    (
        "docs/howto/evaluation.md",
        "session.rollouts(agent, tasks, epochs=10, report_to",
    ): "one call of a session",
    (
        "docs/howto/many-runners.md",
        "from tinkerscript import AsyncTinkerScript",
    ): "the agent is the reader's",
    (
        "docs/howto/many-runners.md",
        "from tinkerscript import TinkerScript\n\nsession =",
    ): "it names a session",
    (
        "docs/howto/many-runners.md",
        "session.tasks.put(rows)",
    ): "one call of a session that is there",
    (
        "docs/howto/many-runners.md",
        "session.tasks.put(rows, judged",
    ): "one call of a session that is there",
    ("docs/howto/runs.md", "def by_thumb"): "it rescores what people have read",
    ("docs/howto/serving.md", "import tinkerscript"): "it names a checkpoint of the reader's",
    ("docs/training.md", "from tinkerscript import LlmJudge"): "it names a judge of the reader's",
}


@dataclass(frozen=True)
class Block:
    """``reason``: why it does not run alone; None: it is a whole program."""

    page: str
    code: str
    reason: str | None


@cache
def blocks() -> list[Block]:
    """Every block of Python of the README and the manual."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "README.md", "docs/*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    pages = [page for page in sorted(set(listed.stdout.split())) if (ROOT / page).is_file()]
    return [
        Block(page, code, _reason(page, code))
        for page in pages
        for code in FENCE.findall((ROOT / page).read_text())
    ]


def key_of(block: Block) -> str:
    """Its page and first line."""
    return f"{block.page}: {block.code.strip().splitlines()[0]}"


def _reason(page: str, code: str) -> str | None:
    found = [
        why
        for (where, begins), why in FRAGMENTS.items()
        if where == page and code.startswith(begins)
    ]
    return found[0] if found else None
