"""Models of all weights (rank 0) on the wire: alone in their runtime, sampled by snapshots, beside
the base.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.weights.handover_folder import folder_is_whole
from support.tinker_harness import MODEL, Open, Wire, step, training

BASE = "tnk_ab:sample:7:ses_0123"


def sample(sampler_id: str, seq_id: int) -> dict[str, Any]:
    prompt = {"chunks": [{"tokens": [1, 2, 3], "type": "encoded_text"}]}
    params = {"max_tokens": 5, "seed": 1}
    return {
        "sampling_session_id": sampler_id,
        "seq_id": seq_id,
        "prompt": prompt,
        "sampling_params": params,
    }


async def snapshot(wire: Wire, seq_id: int, number: int) -> str:
    """Train a step, then save for an unnamed sampler; its id."""
    await wire.do("forward_backward", training(seq_id, [3, 4, seq_id % 50]))
    await wire.do("optim_step", step(seq_id + 1))
    body = {
        "model_id": MODEL,
        "seq_id": seq_id + 2,
        "sampling_session_seq_id": number,
        "kind": "snapshot",
    }
    return (await wire.do("save_weights_for_sampler", body))["sampling_session_id"]


async def test_snapshots_and_the_base_are_sampled_side_by_side_and_outlive_the_runtime(
    wire_open: Open,
) -> None:
    async with wire_open() as wire:
        await wire.post("/tinker/samplers", {"sampling_session_id": BASE, "base_model": "tiny"})
        assert (await wire.model(rank=0))["model_id"] == MODEL
        first, second = await snapshot(wire, 1, 0), await snapshot(wire, 4, 1)
        answers = [await wire.do("asample", sample(each, 0)) for each in (first, second, BASE)]
        one, two, base = wire.engine.orders
        assert (
            one.folder != two.folder and folder_is_whole(one.folder) and folder_is_whole(two.folder)
        )
        assert base.folder is None
        assert len({answer.sequences[0].tokens for answer in answers}) == 3
        moving = {"model_id": MODEL, "seq_id": 7, "sampling_session_seq_id": 2, "kind": "inflight"}
        moved = (await wire.do("save_weights_for_sampler", moving))["sampling_session_id"]
        await wire.do("asample", sample(moved, 0))
        assert wire.engine.orders[-1].folder not in (None, one.folder, two.folder)
    async with wire_open() as wire:
        again = await wire.do("asample", sample(first, 0))
        assert again.sequences[0].tokens == answers[0].sequences[0].tokens


async def test_it_has_the_runtime_to_itself_and_says_so(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model(rank=0)
        beside = await wire.model("tnk_ab:train:1")
        assert beside["category"] == "user" and "one model alone" in beside["error"]


async def test_unnamed_snapshots_are_kept_up_to_a_number_and_an_older_one_says_how_to_keep_it(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_runtime.gateway.tinker.checkpoints.snapshots.SNAPSHOTS_PART", 0.0)
    async with wire_open() as wire:
        await wire.model(rank=0)
        made = [await snapshot(wire, 1 + 3 * number, number) for number in range(3)]
        gone = await wire.do("asample", sample(made[0], 0))
        assert (
            gone["category"] == "user"
            and "no longer kept" in gone["error"]
            and "with a name" in gone["error"]
        )
        for kept in made[1:]:
            assert len((await wire.do("asample", sample(kept, 0))).sequences) == 1


async def test_what_waits_for_other_weights_says_so(wire_open: Open) -> None:
    async with wire_open(poll_s=0.05) as wire:
        await wire.post("/tinker/samplers", {"sampling_session_id": BASE, "base_model": "tiny"})
        wire.engine.waiting = "2 samples wait until the engine has changed"
        wire.engine.reach = _never
        answer = await wire.result(await wire.promise("asample", sample(BASE, 0)))
        assert (
            answer.status_code == 408 and answer.json()["queue_state_reason"] == wire.engine.waiting
        )


async def test_a_state_that_takes_long_to_write_is_saved_as_seldom(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A state of all weights is larger than an adapter's by a thousand times: saving must not be
    all that is done.
    """
    monkeypatch.setattr("gpu_runtime.gateway.tinker.work.SAVE_AFTER_OPERATIONS", 2)

    def states(calls: list[str]) -> int:
        return calls.count(f"save_state {MODEL}")

    async with wire_open() as wire:
        await wire.model(rank=0)
        await snapshot(wire, 1, 0)
        often = states(wire.trainer.calls)
        assert often >= 1
        monkeypatch.setattr("gpu_runtime.gateway.tinker.work.SAVING_SHARE", 1e-9)
        await snapshot(wire, 4, 1)
        assert states(wire.trainer.calls) == often


async def _never(point: str) -> None:
    await asyncio.Event().wait()
