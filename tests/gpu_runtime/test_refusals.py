"""A batch that would break the weights, or has no room, is refused: the weights stand, the record
says why.
"""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.errors import EngineTrainerMismatch, OutOfMemory, StepRefused, TrainerKilled
from gpu_runtime.journal.journal import Journal
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import (
    Parts,
    episode_complete,
    learner_open,
    plane_assign,
    trained_steps,
    volume_fill,
    weights_replayed,
)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def plane():
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        yield plane


async def test_a_batch_without_room_is_refused_and_the_next_one_trains_on_the_weights_before_it(
    plane, volume
) -> None:
    volume_fill(volume, "abcd")
    config = plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=2)
    async with learner_open(plane, volume) as it:
        for _ in range(3):
            await it.train_next()
        before = it.trainer.weights
        it.fail_at("forward_backward 4", OutOfMemory("trainer rank 0 ran out of memory"))
        later = volume / "state-00000009"  # of a commit that was taken back, say
        await it.checkpoints.settle()
        shutil.copytree(volume / "state-00000002", later)
        await it.train_next()
        shutil.rmtree(later)
        assert it.reached("restart") == 1, (
            "after a failed allocation it is not known what state the ranks are in"
        )
        assert it.trainer.weights == before, "the state of step 2 and step 3 once more"
        assert it.engine.version == it.batches.policy_version == it.agent.status.policy_version == 3
        refused = await it.event("step_refused")
        assert (refused["step"], refused["code"]) == (4, "out_of_memory")
        assert "micro_batch_tokens" in refused["hint"] and refused["episodes"] == ["d0", "d1"]
    volume_fill(volume, "e")
    async with learner_open(plane, volume) as it:
        await it.learner.restore()
        await it.train_next()
        assert trained_steps(it.journal)["e0"] == 4
        assert it.trainer.weights == await weights_replayed(it.journal, config)


async def test_a_rank_that_was_killed_once_costs_nothing(plane, volume) -> None:
    volume_fill(volume, "ab")
    config = plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        await it.train_next()
        it.fail_at("optim_step 2", TrainerKilled("trainer rank 0 was killed"))
        await it.train_next()
        assert it.reached("restart") == 1
        assert it.trainer.weights == await weights_replayed(it.journal, config)
        assert trained_steps(it.journal)["b0"] == it.engine.version == 2
        assert [metrics["step"] for metrics in await it.metrics(2)] == [1, 2]


async def test_a_batch_that_costs_two_ranks_is_refused_as_out_of_memory(plane, volume) -> None:
    volume_fill(volume, "ab")
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        await it.train_next()
        before = it.trainer.weights

        async def reach(point: str) -> None:
            if point == "forward_backward 2":
                raise TrainerKilled("trainer rank 0 was killed during forward_backward")

        it.trainer.reach = reach
        await it.train_next()
        assert it.trainer.weights == before
        refused = await it.event("step_refused")
        assert refused["code"] == "out_of_memory" and "was killed" in refused["reason"]
        assert it.journal.episodes.get("b0").fate == "stale"


@pytest.mark.parametrize("loss", [math.nan, math.inf])
async def test_a_loss_that_is_not_finite_is_refused_before_the_step(
    plane, volume, loss: float
) -> None:
    volume_fill(volume, "ab")
    config = plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        forward_backward = it.trainer.forward_backward

        async def broken(*given):
            it.trainer.forward_backward = forward_backward
            result = await forward_backward(*given)
            return replace(result, metrics=result.metrics | {"loss": loss})

        it.trainer.forward_backward = broken
        await it.train_next()
        assert (it.reached("drop_gradient"), it.reached("optim_step"), it.trainer.weights) == (
            1,
            0,
            "base",
        )
        assert f"loss is {loss}" in (await it.event("step_refused"))["reason"]
        await it.train_next()
        assert it.trainer.weights == await weights_replayed(it.journal, config), (
            "nothing of that gradient is left"
        )


async def test_a_refused_batch_stays_readable_after_its_number_was_given_away(
    plane, volume
) -> None:
    volume_fill(volume, "ab")
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        it.fail_at("optim_step 1", StepRefused("the gradient explodes"))
        await it.train_next()
        await it.train_next()
        name = (await it.event("step_refused"))["batch"]
    async with learner_open(plane, volume) as it:
        refused, trained = await lines_of(it, name), await lines_of(it, "1")
        assert (refused[0]["state"], refused[0]["reason"]) == (
            "refused",
            "step_refused: the gradient explodes",
        )
        assert {line["episode_id"] for line in refused[1:]} == {"a0", "a1"} and refused[0][
            "metrics"
        ] is None
        assert trained[0]["state"] == "trained" and trained[0]["metrics"]["step"] == 1
        assert {line["episode_id"] for line in trained[1:]} == {"b0", "b1"}
        assert await it.batches.kept("2") is None and await it.batches.kept("refused-epi") is None


async def lines_of(it: Parts, name: str) -> list[dict]:
    kept = await it.batches.kept(name)
    assert kept is not None
    return [json.loads(line) for line in batch_lines(kept, it.assignment)]


async def test_a_line_holds_what_the_trainer_was_given(plane, volume) -> None:
    volume_fill(volume, "a")
    volume_fill(volume, "b", rewards=(1.0, 1.0))
    plane_assign(plane, seed=7, kl_coef=0.0)
    async with learner_open(plane, volume) as it:
        await it.train_next()
        header, *others = await lines_of(it, "1")
        episodes = [line for line in others if line["kind"] == "episode"]
        samples = [line for line in others if line["kind"] == "sample"]
        assert (
            (header["episodes"], header["samples"], header["seed"])
            == (len(episodes), len(samples), 7)
            == (4, 4, 7)
        )
        assert (
            header["config"] == it.assignment.config.model_dump()
            and header["metrics"]["episodes"] == 4
        )
        first = samples[0]
        assert (first["episode_id"], first["calls"]) == ("a0", ["call-a0"])
        assert first["token_ids"] == [1, 2, *b"a0"] and first["mask"] == [0, 0, 1, 1]
        assert first["logprobs"] == [0, 0, -0.5, -0.5] and first["policy_versions"] == [
            -1,
            -1,
            0,
            0,
        ]
        assert (
            first["advantages"][:2] == [0, 0]
            and first["advantages"][2] == first["advantages"][3] < 0
        )
        assert [line["in_gradient"] for line in samples] == [True, True, False, False]
        assert episodes[0]["calls"][0]["completions"][0]["token_ids"] == list(b"a0")
        assert [line["output"]["reward"] for line in episodes] == [0, 1, 1, 1]


async def test_an_engine_that_shares_its_device_sleeps_while_a_step_runs(plane, volume) -> None:
    volume_fill(volume, "ab")
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        it.engine.shares_device = True
        await it.train_next()
        work = [point for point in it.points if not point.endswith("done")]
        assert work == [
            "sleep",
            "forward_backward 1",
            "optim_step 1",
            "wake",
            "publish",
            "load_weights 1",
        ]
        it.points.clear()
        it.fail_at("optim_step 2", StepRefused("the gradient of step 2 is not finite"))
        await it.train_next()
        assert it.points[-1] == "wake", "a refused step leaves an engine that serves"
        assert "load_weights 2" not in it.points


async def test_an_engine_with_a_device_of_its_own_never_sleeps(plane, volume) -> None:
    volume_fill(volume, "a")
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        await it.train_next()
        assert it.reached("sleep") == it.reached("wake") == 0


LATER = 4e9  # Unix time: after any hand-over of the test


async def test_a_second_mismatch_on_tokens_sampled_after_the_new_hand_over_is_final(
    plane, volume
) -> None:
    volume_fill(volume, "ab")
    later_fill(volume, "c")
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        it.trainer.kl_engine = 5.0
        await it.train_next()
        assert it.reached("load_weights") == 1
        refused = await it.event("step_refused")
        assert (refused["code"], refused["kl_engine"]) == ("engine_trainer_mismatch", 5.0)
        await it.train_next()  # sampled before the weights came again: no proof of them
        with pytest.raises(
            EngineTrainerMismatch, match=r"KL of 5, on tokens sampled after the engine was given"
        ):
            await it.train_next()
        assert it.trainer.weights == "base" and it.reached("load_weights") == 1
        assert it.journal.episodes.accounting().stale == 6, (
            "the batch that ended it is on record, and not made again"
        )


async def test_a_mismatch_that_the_new_hand_over_cured_is_forgotten(plane, volume) -> None:
    volume_fill(volume, "a")
    later_fill(volume, "b")
    later_fill(volume, "c", version=1)
    plane_assign(plane, tasks_per_batch=1)
    async with learner_open(plane, volume) as it:
        for kl, steps in ((5.0, 0), (0.0, 1), (5.0, 1)):
            it.trainer.kl_engine = kl
            await it.train_next()
            assert len(it.trainer.steps) == steps


async def test_steps_on_older_tokens_prove_nothing_about_a_mismatch_before_them(
    plane, volume
) -> None:
    """Two proofs in a row that fail end the session. The oldest tokens are trained first, and are
    no proof."""
    volume_fill(volume, "a")
    later_fill(volume, "ef", version=3)
    later_fill(volume, "cd")  # of version 0, trained under versions 1 and 2
    plane_assign(plane, tasks_per_batch=1, max_staleness=16)
    async with learner_open(plane, volume) as it:
        await it.train_next()
        it.trainer.kl_engine = 5.0
        for steps in (2, 3):
            await it.train_next()
            assert len(it.trainer.steps) == steps, "what older weights sampled cannot show a gap"
        await it.train_next()
        assert len(it.trainer.steps) == 3 and (await it.event("step_refused"))["kl_engine"] == 5.0
        with pytest.raises(
            EngineTrainerMismatch, match="on tokens sampled after the engine was given"
        ):
            await it.train_next()


def later_fill(volume: Path, tasks: str, version: int = 0) -> None:
    journal = Journal(volume / "journal.sqlite3")
    for name in tasks:
        for number in (0, 1):
            reward = float(number)
            episode_complete(
                journal,
                f"{name}{number}",
                task=name,
                reward=reward,
                version=version,
                begun_at=LATER,
            )
    journal.close()
