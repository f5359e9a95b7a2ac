"""Any batch, trained or refused, comes home as a file of JSON lines: through REST, as the SDK
writes it.
"""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import ledger, play

from gpu_runtime.loop.data import loop_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.loop.step_options import loss_settings
from support.fakes import FakeTrainer
from tinkerscript.errors import NotFound
from tinkerscript.wire.config import SessionConfig

PAIRS = {"grpo_n": 2, "tasks_per_batch": 2}


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_trained_and_a_refused_batch_are_downloaded_whole(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS, seed=11)
    first = await asyncio.to_thread(play, remote, "mist", 4)
    await asyncio.to_thread(until, lambda: remote.status().policy_version == 1, "step 1 is done")
    (loop_server.volume(remote.id) / "refuse-optim_step-2").touch()
    second = await asyncio.to_thread(play, remote, "mist", 4)

    def refusals() -> list[dict]:
        events = remote.events(kinds=["event"])
        return [each.data for each in events if each.data["name"] == "step_refused"]

    await asyncio.to_thread(until, refusals, "the session says which batch was refused", 40)
    (refused,) = await asyncio.to_thread(refusals)
    assert refused["episodes"] == second and "is to be refused" in refused["reason"]

    path = await asyncio.to_thread(remote.download_batch, 1, tmp_path / "trained.jsonl")
    header, *rest = lines_of(path)
    assert (header["kind"], header["state"], header["step"], header["seed"]) == (
        "batch",
        "trained",
        1,
        11,
    )
    assert header["session_id"] == remote.id and header["config"] == remote.config.model_dump()
    assert [line["episode_id"] for line in rest if line["kind"] == "episode"] == first
    await check_gradient(header, rest)

    path = await asyncio.to_thread(
        remote.download_batch, refused["batch"], tmp_path / "refused.jsonl"
    )
    header, *rest = lines_of(path)
    assert (header["state"], header["metrics"]) == (
        "refused",
        None,
    ) and "is to be refused" in header["reason"]
    assert [line["episode_id"] for line in rest if line["kind"] == "episode"] == second

    with pytest.raises(NotFound, match="no batch 2"):
        await asyncio.to_thread(remote.download_batch, 2, tmp_path / "none.jsonl")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["refused.jsonl", "trained.jsonl"]
    outsider = loop_server.make_key("mallory@example.com")
    url = f"{loop_server.url}/v1/sessions/{remote.id}/batches/1"
    answer = await asyncio.to_thread(
        httpx.get, url, headers={"Authorization": f"Bearer {outsider}"}
    )
    assert answer.status_code == 404
    await asyncio.to_thread(remote.close)
    assert ledger(loop_server, remote.id)[0].stale == 4
    await check_same_from_the_store(
        url, loop_server.api_key, tmp_path / "trained.jsonl", refused["batch"]
    )


async def check_same_from_the_store(url: str, key: str, running: Path, refused: str) -> None:
    """What the file of a running session had, to rounding, when there is no runtime any more."""
    headers = {"Authorization": f"Bearer {key}"}

    def state() -> str:
        return httpx.get(url.partition("/batches")[0], headers=headers, timeout=90).json()["state"]

    await asyncio.to_thread(until, lambda: state() == "stopped", "the session has stopped", 60)
    answer = await asyncio.to_thread(httpx.get, url, headers=headers, timeout=30)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    stored, before = [json.loads(line) for line in answer.text.splitlines()], lines_of(running)
    assert [line.pop("advantages", None) for line in stored] == [
        pytest.approx(line.pop("advantages", None)) for line in before
    ]
    assert stored == before
    for name, status in ((refused, 409), ("2", 404), ("x", 404)):
        answer = await asyncio.to_thread(
            httpx.get, f"{url.removesuffix('1')}{name}", headers=headers
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            status,
            "conflict" if status == 409 else "not_found",
        )


async def check_gradient(header: dict, rest: list[dict]) -> None:
    """What the file says is what the trainer was given: its metrics come of these samples, and of
    no others.
    """
    live = [line for line in rest if line["kind"] == "sample" and line["in_gradient"]]
    samples = [
        Sample(
            tuple(line["token_ids"]),
            tuple(line["mask"]),
            tuple(line["logprobs"]),
            next((a for a in line["advantages"] if a), 0.0),
            line["weight"],
            line["group"],
        )
        for line in live
    ]
    config = SessionConfig.model_validate(header["config"])
    given = loop_data(samples, config), config.loss, loss_settings(config)
    metrics = (await FakeTrainer().forward_backward(*given)).metrics
    assert header["metrics"]["tokens_trained"] == metrics["tokens_trained"] > 0
    assert header["metrics"]["tokens_computed"] == metrics["tokens_computed"]
    for line in live:
        calls = [
            call
            for episode in rest
            if episode.get("episode_id") == line["episode_id"]
            for call in episode["calls"]
        ]
        sampled = [
            token
            for call in calls
            if isinstance(call, dict)
            for a in call["completions"]
            for token in a["token_ids"]
        ]
        trained = [
            token for token, mask in zip(line["token_ids"], line["mask"], strict=True) if mask
        ]
        assert trained == sampled
