"""What the tests of the loop share: an agent of one call, and the check that nothing was lost,
doubled or reordered.
"""

import json
import zlib
from pathlib import Path

from e2e.loop_server import BASE_MODEL, LoopServer
from openai import OpenAI

from gpu_runtime.journal.journal import Journal
from support.runtime_harness import weights_replayed
from tinkerscript import TinkerScript, WorkflowOutput
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import Accounting

QUESTION = "Tell me about {}."


def execute_agent(task: str, api_baseurl_key) -> WorkflowOutput:
    """An agent of one call; its reward depends on what the model said."""
    base_url, api_key = api_baseurl_key
    with OpenAI(base_url=base_url, api_key=api_key) as client:
        messages = [{"role": "user", "content": QUESTION.format(task)}]
        answer = client.chat.completions.create(model=BASE_MODEL, messages=messages, max_tokens=16)
    return WorkflowOutput(reward=reward_of(answer.choices[0].message.content))


def reward_of(text: str) -> float:
    # of two texts hardly ever the same, or their group teaches nothing
    return zlib.crc32(text.encode()) / 2**32


def play(remote: TinkerScript, task: str, episodes: int) -> list[str]:
    """Episodes of one task, one after the other; the ids that were acknowledged."""
    return [
        remote.end_episode(execute_agent(task, remote.begin_episode(task=task))).episode_id
        for _ in range(episodes)
    ]


async def check_weights(
    server: LoopServer, session_id: str, config: SessionConfig, folder: Path
) -> None:
    """The journal's batches, trained alone, in order and each once, give the weights that the
    session exported.
    """
    journal = Journal(server.volume(session_id) / "journal.sqlite3")
    try:
        expected = await weights_replayed(journal, config)
    finally:
        journal.close()
    assert json.loads((folder / "weights.json").read_text()) == {"weights": expected}


def ledger(server: LoopServer, session_id: str) -> tuple[Accounting, dict[str, str | None]]:
    """The journal's own accounting, which must balance, and the fate of every episode."""
    journal = Journal(server.volume(session_id) / "journal.sqlite3")
    try:
        accounting = journal.episodes.accounting()
        assert accounting.balances, accounting
        return accounting, {
            record.id: record.view().fate for record in journal.episodes.page(limit=10_000)
        }
    finally:
        journal.close()
