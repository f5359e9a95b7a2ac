"""A runtime's life with fake engine and trainer: it trains what comes, obeys orders, and ends with
a named fault.
"""

import asyncio
import json
from pathlib import Path

import pytest

from gpu_runtime import run as run_module
from gpu_runtime.errors import (
    EngineDead,
    LeaseLost,
    ModelUnsupported,
    OutOfMemory,
    StepRefused,
    TrainerFailed,
)
from gpu_runtime.journal.journal import Journal
from gpu_runtime.parts import PARTS
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.template_check import template_verify
from gpu_runtime.start import start
from gpu_runtime.weights.handover_folder import handover_folder
from support.archive_checks import check_archive
from support.fake_control_plane import FakeControlPlane, error_body
from support.light_tokenizer import LightTokenizer
from support.runtime_harness import plane_assign, runtime_config, upload_committed
from support.tiny_tokenizers import CHATML, build_tokenizer
from support.waiting import eventually
from tinkerscript.wire.runtime import PHASE_WAITING, StopReason
from tinkerscript.wire.sessions import SessionKind

UPLOADS = "/v1/runtime/uploads"


def events(plane: FakeControlPlane, name: str) -> list[dict]:
    entries = [entry["data"] for entry in list(plane.entries.values()) if entry["kind"] == "event"]
    return [data for data in entries if data["name"] == name]


def metrics(plane: FakeControlPlane) -> list[dict]:
    return [entry["data"] for entry in list(plane.entries.values()) if entry["kind"] == "metric"]


def weights_in(plane: FakeControlPlane, upload: dict) -> str:
    return json.loads(plane.objects[f"{upload['checkpoint_id']}/weights.json"])["weights"]


async def test_full_batches_are_trained_and_the_engine_serves_their_weights(plane, runtime) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        assert it.engine.version == 1 and it.trainer.weights in it.engine.weights_text
        await it.play_groups("a", "b")
        await it.stepped(2)
        await eventually(lambda: len(metrics(plane)) == 2)
        await eventually(
            lambda: it.status["phase"] == PHASE_WAITING and it.status["accounting"]["trained"] == 8
        )
        await it.end()


async def test_a_model_holds_every_full_group_and_no_more(plane, runtime) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a")
        await it.play("b", 1.0)
        it.order("ckp_model", "model")
        upload = await it.committed("ckp_model")
        assert upload["step"] == 1 and weights_in(plane, upload) == it.trainer.weights != "base"
        assert "ckp_model/tokenizer.json" in plane.objects
        await eventually(lambda: it.status["accounting"]["trained"] == 2)
        assert it.status["accounting"]["stale"] == 1, (
            "its tokens are of version 0, the next step trains version 1"
        )
        [dropped] = events(plane, "episodes_stale")
        assert (dropped["n"], dropped["tasks"]) == (1, ["b"]) and "max_staleness" in dropped["why"]
        await it.play("c", 1.0)
        await eventually(lambda: it.status["phase"].endswith("task c lacks 1"))
        await it.end()
    assert not (it.volume / "export").exists()


async def test_an_order_is_fulfilled_once_and_a_state_resumes(plane, runtime) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        it.order("ckp_state", "state")
        await it.committed("ckp_state")
        beats = len(plane.bodies("/v1/runtime/heartbeat"))
        await eventually(lambda: len(plane.bodies("/v1/runtime/heartbeat")) >= beats + 2)
        assert sum(upload["checkpoint_id"] == "ckp_state" for upload in plane.uploads.values()) == 1
        weights = it.trainer.weights
        await it.end()
    plane.orders = plane.orders | {"stop": None}
    async with runtime(plane) as it:
        assert it.trainer.weights == weights and it.status["policy_version"] == 1
        await it.end()


@pytest.mark.system
async def test_a_store_that_is_away_delays_an_order_and_training_goes_on(plane, runtime) -> None:
    async with runtime(plane, patience_s=0.3) as it:
        plane.answers[UPLOADS] = (503, error_body("storage_unavailable"))
        it.order("ckp_model", "model")
        await eventually(lambda: events(plane, "storage_unavailable"))
        await it.play_groups("a", "b")
        await it.stepped(1)
        del plane.answers[UPLOADS]
        upload = await it.committed("ckp_model")
        assert weights_in(plane, upload) == it.trainer.weights
        await it.end()


async def test_a_stop_leaves_the_journal_in_the_store(plane, runtime) -> None:
    async with runtime(plane) as it:
        await it.play("a", 1.0)
        await it.end("stop")
        assert it.engine.closed and it.trainer.closed
    (it.volume / "copy.sqlite3").write_bytes(plane.objects["None/journal-copy.sqlite3"])
    copy = Journal(it.volume / "copy.sqlite3")
    assert copy.episodes.accounting().waiting == 1
    copy.close()


@pytest.mark.parametrize("by_fault", [False, True])
async def test_what_was_played_since_the_last_heartbeat_is_in_the_ledger_of_the_end(
    plane, runtime, monkeypatch, by_fault: bool
) -> None:
    async with runtime(plane) as it:
        monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 3600.0)
        await it.play("a", 1.0)
        if by_fault:
            it.engine.dead = True
            with pytest.raises(EngineDead):
                await asyncio.wait_for(it.task, 60)
        else:
            it.agents[0].stop_reason = StopReason.STOP
            it.agents[0].stop_requested.set()
            await asyncio.wait_for(it.task, 60)
        assert (it.status["accounting"]["begun"], it.status["accounting"]["waiting"]) == (1, 1)


@pytest.mark.parametrize("how", ["stop", "suspend"])
async def test_an_end_waits_for_room_in_the_store_and_then_leaves_there_what_stays(
    plane, runtime, how: str
) -> None:
    async with runtime(plane, patience_s=0.3) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        await it.play("c", 1.0)
        plane.answers[UPLOADS] = (507, error_body("disk_full", "The disk is nearly full."))
        plane.orders = plane.orders | {"stop": how}
        await eventually(lambda: it.status["phase"] == "waiting for room in the object store")
        progress = it.status["progress"]
        await eventually(lambda: it.status["progress"] > progress + 3)
        assert (
            not it.task.done()
            and events(plane, "store_full")[0]["reason"] == "The disk is nearly full."
        )
        del plane.answers[UPLOADS]
        await asyncio.wait_for(it.task, 60)
        fates = sorted(check_archive(plane, it.volume).values())
        assert fates == ["trained"] * 4 + ["waiting"] * (how == "stop")
        states = [u for u in plane.uploads.values() if u["kind"] == "state" and u["committed"]]
        assert [state["step"] for state in states] == [1] * (how == "suspend")


@pytest.mark.system
async def test_a_suspended_session_goes_on_on_another_machine(
    plane, runtime, tmp_path: Path
) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        await it.play("c", 1.0)
        weights = it.trainer.weights
        await it.end("suspend")
    assert (await upload_committed(plane, kind="state"))["step"] == 1
    it.volume.rename(tmp_path / "lost")
    plane.orders = plane.orders | {"stop": None}
    async with runtime(plane) as it:
        assert it.trainer.weights == weights and it.engine.version == 1
        await it.play("c", 0.0)
        await it.play_groups("d")
        await it.stepped(2)
        await eventually(lambda: it.status["accounting"]["trained"] == 8)
        await it.end()


async def test_a_refused_step_is_recorded_and_the_session_goes_on(plane, runtime) -> None:
    async with runtime(plane) as it:
        refused = asyncio.Event()

        async def reach(point: str) -> None:
            if point == "optim_step 1" and not refused.is_set():
                refused.set()
                raise StepRefused("the gradient of step 1 is not finite")

        it.trainer.reach = reach
        await it.play_groups("a", "b")
        await eventually(lambda: events(plane, "step_refused"))
        assert len(events(plane, "step_refused")[0]["episodes"]) == 4
        await it.play_groups("a", "b")
        await it.stepped(1)
        await eventually(
            lambda: (it.status["accounting"]["trained"], it.status["accounting"]["stale"]) == (4, 4)
        )
        await it.end()


async def test_training_ends_at_max_steps_and_orders_are_still_taken(
    plane, runtime, model: Path
) -> None:
    plane_assign(plane, model, max_steps=1, max_staleness=0)
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        await it.play_groups("a", "b")
        it.order("ckp_model", "model")
        assert (await it.committed("ckp_model"))["step"] == 1
        await eventually(lambda: it.status["accounting"]["waiting"] == 4)
        await it.end()


@pytest.mark.parametrize(("part", "fault"), [("engine", EngineDead), ("trainer", TrainerFailed)])
async def test_a_part_that_dies_while_no_one_needs_it_ends_the_runtime(
    plane, runtime, part: str, fault: type
) -> None:
    async with runtime(plane) as it:
        getattr(it, part).dead = True
        with pytest.raises(fault):
            await asyncio.wait_for(it.task, 25)
        assert it.engine.closed and it.trainer.closed


async def test_ranks_that_had_no_memory_for_a_checkpoint_are_started_again_and_end_no_runtime(
    plane, runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "WATCH_S", 0.001)
    async with runtime(plane) as it:
        reached = list[str]()

        async def reach(point: str) -> None:
            reached.append(point)
            if point == "export_model":
                it.trainer.dead = True
                raise OutOfMemory("trainer rank 0 ran out of memory in export_model")

        it.trainer.reach = reach
        it.order("ckp_1", "model")
        await eventually(lambda: it.task.done() or "restart" in reached)
        await it.play_groups("a", "b")
        await it.stepped(1)
        assert plane.bodies("/v1/runtime/failed-checkpoints")
        it.trainer.dead = True
        with pytest.raises(TrainerFailed):
            await asyncio.wait_for(it.task, 25)


async def test_a_trainer_that_fails_in_a_step_ends_the_runtime_and_the_next_one_trains_the_batch(
    plane, runtime
) -> None:
    async with runtime(plane) as it:

        async def reach(point: str) -> None:
            if point == "optim_step 1":
                raise TrainerFailed("a rank ended")

        it.trainer.reach = reach
        await it.play_groups("a", "b")
        with pytest.raises(TrainerFailed, match="a rank ended"):
            await asyncio.wait_for(it.task, 25)
    async with runtime(plane) as it:
        assert it.status["policy_version"] == 1 and it.trainer.steps == [1]
        await it.end()


async def test_a_call_that_finds_the_engine_dead_ends_the_runtime_with_that_fault(
    plane, runtime
) -> None:
    async with runtime(plane) as it:

        async def reach(point: str) -> None:
            if point == "generate":
                raise EngineDead("the engine failed while generating")

        it.engine.reach = reach
        with pytest.raises(AssertionError, match="session_not_ready"):
            await it.play("a", 1.0)
        with pytest.raises(EngineDead, match="while generating"):
            await asyncio.wait_for(it.task, 25)


async def test_a_lost_lease_ends_the_runtime_without_another_write(plane, runtime) -> None:
    async with runtime(plane) as it:
        plane.answers["/v1/runtime/heartbeat"] = (409, error_body("stale_lease"))
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(it.task, 25)
    assert plane.uploads == {}


def test_the_weights_that_a_killed_runtime_left_in_memory_are_removed() -> None:
    with handover_folder("ses_other") as other, handover_folder("ses_killed") as left:
        (left / "weights.safetensors").write_bytes(b"x")
        with handover_folder("ses_killed") as mine:
            assert mine.is_dir() and not left.exists() and other.is_dir()
    assert not mine.exists() and not other.exists()


async def test_a_model_that_would_be_trained_wrong_fails_the_session_by_name_and_starts_nothing(
    plane, tmp_path: Path
) -> None:
    """Through the runtime's own start of engine and trainer, which come after the refusal."""
    folder, volume = tmp_path / "wrong", tmp_path / "volume"
    for each in (folder, volume):
        each.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True})
    )
    plane_assign(plane, folder)
    # it ends in order: the launcher sees no crash
    await asyncio.wait_for(start(runtime_config(plane, volume)), 60)
    (failed,) = plane.bodies("/v1/runtime/fail")
    assert failed["code"] == "model_unsupported"
    assert "is_encoder_decoder: only decoders are trained" in failed["cause"]


def test_a_template_without_an_end_of_turn_is_refused(tmp_path: Path) -> None:
    folder = build_tokenizer(tmp_path / "model")
    template_verify(Renderer(LightTokenizer(folder)), str(folder))
    (folder / "chat_template.jinja").write_text(CHATML.replace("<|im_end|>", ""))
    with pytest.raises(ModelUnsupported, match="no special token.*add one to the template"):
        template_verify(Renderer(LightTokenizer(folder)), str(folder))


def test_every_kind_of_session_has_its_row_in_the_table_of_parts() -> None:
    assert set(PARTS) == set(SessionKind)
