"""Every trajectory comes home: through a runtime that was killed, the store, REST and the SDK, each
exactly once.
"""

import asyncio
from contextlib import closing
from pathlib import Path

import httpx
import pyarrow.parquet as parquet
import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import execute_agent, play

from gpu_runtime.journal.journal import Journal
from support.archive_checks import check_row
from tinkerscript import Session, TinkerScript
from tinkerscript.connection.transport import Transport
from tinkerscript.errors import Conflict

PAIRS = {"grpo_n": 2, "tasks_per_batch": 2, "checkpoint_every_steps": 1}


def stepped(remote: TinkerScript, step: int) -> None:
    until(lambda: remote.status().policy_version == step, f"step {step} is done", 40)


def archived(session: Session) -> int:
    try:
        return session.episode_urls().episodes
    except Conflict:
        return 0


def rows_of(paths: list[Path]) -> dict[str, dict]:
    rows = [row for path in paths for row in parquet.read_table(path).to_pylist()]
    by_id = {row["episode_id"]: row for row in rows}
    assert len(by_id) == len(rows), "an episode is in two parts"
    return by_id


async def test_every_ended_episode_is_downloaded_once_though_the_runtime_was_killed(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS)
    with pytest.raises(Conflict, match="archived yet"):
        remote.download_episodes(tmp_path / "none")

    def live() -> dict[str, str]:
        fates = dict.fromkeys(play(remote, "mist", 4), "trained")
        stepped(remote, 1)
        until(lambda: archived(remote) == 4, "the state's episodes are archived")
        evaluated = remote.begin_episode(task="mist", eval=True)
        fates[remote.end_episode(execute_agent("mist", evaluated)).episode_id] = "eval"
        dropped = remote.begin_episode(task="mist")
        dropped.abandon("why")
        fates[dropped.id] = "abandoned"
        hold = loop_server.volume(remote.id) / "hold-save_state"
        hold.touch()
        fates |= dict.fromkeys(play(remote, "mist", 4), "trained")
        until(lambda: (hold.parent / "at-save_state").exists(), "the runtime saves step 2", 40)
        loop_server.runtime_kill(remote.id)
        hold.unlink()
        fates |= dict.fromkeys(play(remote, "rain", 1), "waiting")
        until(lambda: archived(remote) == 10, "the next runtime archives the rest", 60)
        return fates

    fates = await asyncio.to_thread(live)
    first = rows_of(await asyncio.to_thread(remote.download_episodes, tmp_path / "episodes"))
    assert len(first) == 10 and "waiting" not in {row["fate"] for row in first.values()}
    await asyncio.to_thread(remote.close)

    with closing(Transport(loop_server.url, loop_server.api_key)) as transport:
        ended = Session(transport, remote.id)
        await asyncio.to_thread(ended.wait_released, 60)
        paths = await asyncio.to_thread(ended.download_episodes, tmp_path / "episodes")
    rows = rows_of(paths)
    assert {episode_id: row["fate"] for episode_id, row in rows.items()} == fates
    journal = Journal(loop_server.volume(remote.id) / "journal.sqlite3")
    try:
        for episode_id, row in rows.items():
            check_row(row, journal.episodes.get(episode_id), journal.calls.of_episode(episode_id))
    finally:
        journal.close()

    outsider = loop_server.make_key("mallory@example.com")
    url = f"{loop_server.url}/v1/sessions/{remote.id}/episodes/export"
    answer = await asyncio.to_thread(
        httpx.get, url, headers={"Authorization": f"Bearer {outsider}"}
    )
    assert answer.status_code == 404
