"""A batch is trained once, in its order and to the same bits; what cannot be trained says so."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runtime.errors import StepRefused, TrainerFailed
from gpu_runtime.steps import learner as learner_module
from support.fake_control_plane import FakeControlPlane, error_body
from support.runtime_harness import (
    learner_open,
    plane_assign,
    trained_steps,
    volume_fill,
    weights_replayed,
)
from support.waiting import FakeClock, eventually

UPLOADS = "/v1/runtime/uploads"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


async def test_a_batch_is_trained_served_and_recorded(volume: Path) -> None:
    volume_fill(volume, ["a", "b"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        config = plane_assign(plane)
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 0
            await it.train_next()
            (metrics,) = await it.metrics(1)
            assert (
                metrics["step"],
                metrics["episodes"],
                metrics["groups"],
                metrics["reward_mean"],
            ) == (1, 4, 2, 0.5)
            assert (
                it.engine.version
                == it.batches.policy_version
                == it.agent.status.policy_version
                == 1
            )
            assert it.trainer.weights in it.engine.weights_text
            assert it.trainer.weights == await weights_replayed(it.journal, config)
            assert trained_steps(it.journal) == {"a0": 1, "a1": 1, "b0": 1, "b1": 1}


async def test_the_parts_of_a_step_are_measured_from_the_end_of_the_one_before(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_fill(volume, "ab")
    clock = FakeClock()

    async def reach(point: str) -> None:
        name, *rest = point.split()
        if "done" not in rest:
            clock.advance({"forward_backward": 20.0, "publish": 3.0}.get(name, 0.0))

    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        monkeypatch.setattr(learner_module, "time", SimpleNamespace(monotonic=clock, time=clock))
        async with learner_open(plane, volume) as it:
            it.trainer.reach = reach
            for _ in range(2):
                clock.advance(100.0)
                await it.train_next()
            parts = [
                [metrics[name] for name in ("rollout_s", "train_s", "handover_s")]
                for metrics in await it.metrics(2)
            ]
    assert parts == [[100.0, 20.0, 3.0]] * 2


async def test_a_refused_step_leaves_the_weights_and_names_its_episodes(volume: Path) -> None:
    volume_fill(volume, ["a", "b", "c", "d"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane)
        async with learner_open(plane, volume) as it:
            it.fail_at("optim_step 1", StepRefused("the gradient is not finite"))
            before = it.trainer.weights
            await it.train_next()
            assert (
                it.trainer.weights == before
                and it.engine.weights == []
                and it.batches.policy_version == 0
            )
            refused = await it.event("step_refused")
            assert (
                refused["episodes"] == ["a0", "a1", "b0", "b1"]
                and "not finite" in refused["reason"]
            )
            assert it.journal.episodes.accounting().stale == 4
            assert "step_refused" in it.journal.episodes.get("a0").reason
            # the number is free again, and nothing of the refused gradient is left
            await it.train_next()
            assert trained_steps(it.journal)["c0"] == 1
            assert (await it.metrics(1))[0]["step"] == 1
            assert len(it.trainer.steps) == 1


async def test_a_group_of_equal_rewards_is_left_out_of_the_gradient(volume: Path) -> None:
    volume_fill(volume, ["a"], rewards=(1.0, 1.0))
    volume_fill(volume, ["b"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, kl_coef=0.0)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            (metrics,) = await it.metrics(1)
            assert (metrics["groups_skipped"], metrics["tokens_trained"]) == (
                1,
                len("b0") + len("b1"),
            )


async def test_a_state_is_saved_every_so_many_steps_and_two_are_kept_here(volume: Path) -> None:
    volume_fill(volume, "abcdef")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=2)
        async with learner_open(plane, volume) as it:
            for _ in range(6):
                await it.train_next()
            await it.checkpoints.settle()
        assert [
            upload["step"] for upload in plane.uploads.values() if upload["kind"] == "state"
        ] == [2, 4, 6]
        assert sorted(folder.name for folder in volume.glob("state-*")) == [
            "state-00000004",
            "state-00000006",
        ]


async def test_a_new_runtime_trains_what_the_last_state_lacks_to_the_same_bits(
    volume: Path,
) -> None:
    volume_fill(volume, "abcde")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        config = plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=2)
        async with learner_open(plane, volume) as it:
            for _ in range(3):
                await it.train_next()
            await it.checkpoints.settle()
            weights = it.trainer.weights
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 3
            assert it.trainer.weights == weights == await weights_replayed(it.journal, config)
            assert it.trainer.weights in it.engine.weights_text and it.engine.version == 3
            assert it.reached("forward_backward") == 1, (
                "steps of a committed state are not trained again"
            )
            await it.train_next()
            assert trained_steps(it.journal)["d0"] == 4
            assert [metrics["step"] for metrics in await it.metrics(4)] == [1, 2, 3, 4]


async def test_a_batch_that_was_journaled_but_not_trained_comes_first_after_a_restart(
    volume: Path,
) -> None:
    volume_fill(volume, ["a", "b", "c", "d"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane)
        async with learner_open(plane, volume) as it:
            it.fail_at("optim_step 1", TrainerFailed("a rank ended"))
            with pytest.raises(TrainerFailed):
                await it.train_next()
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 1
            await it.train_next()
            steps = trained_steps(it.journal)
            assert {steps["a0"], steps["b1"]} == {1} and {steps["c0"], steps["d1"]} == {2}


async def test_a_new_volume_goes_on_from_the_stored_state_and_journal(
    volume: Path, tmp_path: Path
) -> None:
    """The machine is lost right after a state was committed: the stored journal is at least as new
    as the state.
    """
    volume_fill(volume, "abc")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        config = plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=2)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            await it.train_next()
            await it.checkpoints.settle()
            weights = it.trainer.weights
        other = tmp_path / "other"
        other.mkdir()
        async with learner_open(plane, other) as it:
            assert await it.learner.restore() == 2
            assert it.batches.policy_version == 2 and it.trainer.weights == weights
            await it.train_next()
            assert trained_steps(it.journal)["c0"] == 3
            assert it.trainer.weights == await weights_replayed(it.journal, config)


async def test_a_store_that_is_away_costs_a_state_and_not_the_session(volume: Path) -> None:
    volume_fill(volume, "abc")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=1)
        async with learner_open(plane, volume, patience_s=0.5) as it:
            plane.answers[UPLOADS] = (503, error_body("storage_unavailable"))
            await it.train_next()
            await it.event("storage_unavailable")
            await it.train_next()
            del plane.answers[UPLOADS]
            await it.train_next()
            await it.checkpoints.settle()
        assert [upload["step"] for upload in plane.uploads.values() if upload["kind"] == "state"][
            -1
        ] == 3


async def test_an_ordered_state_that_the_store_did_not_take_is_made_when_it_is_ordered_again(
    volume: Path,
) -> None:
    volume_fill(volume, "a")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume, patience_s=0.5) as it:
            await it.train_next()
            plane.answers[UPLOADS] = (503, error_body("storage_unavailable"))
            plane.orders = plane.orders | {
                "checkpoints": [{"checkpoint_id": "ckp_asked", "kind": "state"}]
            }
            order = await asyncio.wait_for(it.agent.checkpoint_orders.get(), 25)
            await it.checkpoints.save_state(1, order.checkpoint_id)
            await it.event("storage_unavailable")
            del plane.answers[UPLOADS]
            order = await asyncio.wait_for(it.agent.checkpoint_orders.get(), 25)
            await it.checkpoints.save_state(1, order.checkpoint_id)
            await it.checkpoints.settle()
            assert any(
                u["committed"] for u in plane.uploads.values() if u["checkpoint_id"] == "ckp_asked"
            )
            await eventually(lambda: it.agent.checkpoint_orders.empty())


async def test_what_was_reported_of_a_step_arrives_before_its_state_is_committed(
    volume: Path,
) -> None:
    """Steps of a committed state are not trained again: a report lost after it would be lost for
    good.
    """
    volume_fill(volume, "a")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=1)
        plane.answers["/v1/runtime/report"] = (503, error_body("internal"))
        async with learner_open(plane, volume) as it:
            await it.train_next()
            await eventually(lambda: len(plane.bodies("/v1/runtime/report")) >= 2)
            assert not any(
                upload["committed"]
                for upload in plane.uploads.values()
                if upload["kind"] == "state"
            )
            del plane.answers["/v1/runtime/report"]
            await it.checkpoints.settle()
            assert len(await it.metrics(1)) == 1


async def test_a_gap_between_engine_and_trainer_refuses_the_step_and_gives_the_engine_the_weights_again(
    volume: Path,
) -> None:
    volume_fill(volume, ["a", "b"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane)
        async with learner_open(plane, volume) as it:
            it.trainer.kl_engine = 0.3
            await it.train_next()
            refused = await it.event("step_refused")
            assert (refused["step"], refused["code"]) == (1, "engine_trainer_mismatch")
            assert "a KL of 0.3" in refused["reason"]
            assert it.trainer.weights == "base" and it.trainer.weights in it.engine.weights_text
            assert it.engine.version == 0, "the step was not taken"


async def test_a_counted_step_is_restored_though_its_gap_would_be_refused_now(volume: Path) -> None:
    """As after an upgrade to a tighter bound: the journal has the step, and others were sampled
    from it.
    """
    volume_fill(volume, "a")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            await it.train_next()
        async with learner_open(plane, volume) as it:
            it.trainer.kl_engine = 0.3
            assert await it.learner.restore() == 1 and it.trainer.steps == [1]
