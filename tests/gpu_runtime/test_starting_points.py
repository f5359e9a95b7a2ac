"""A session that begins from a checkpoint: from its weights as the base, or from its state as step
0."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import TrainerKilled
from gpu_runtime.loading import base_folder
from gpu_runtime.loop.step_options import loss_settings, step_adam
from gpu_runtime.object_store.uploads import ObjectStore
from gpu_runtime.session import Session
from gpu_runtime.steps.resumed_state import state_of
from support.fake_control_plane import FakeControlPlane
from support.fakes import FakeTrainer
from support.runtime_harness import (
    learner_open,
    plane_assign,
    resume_point,
    runtime_config,
    volume_fill,
)
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import Assignment

RECORD = {
    "checkpoint_id": "ckp_old",
    "session_id": "ses_old",
    "kind": "state",
    "step": 7,
    "tinker_path": None,
}


def assign(plane: FakeControlPlane, **fields: Any) -> None:
    """Assign as ``plane_assign`` does, with these fields too."""
    plane_assign(plane, tasks_per_batch=1)
    usual = plane.answers["/v1/runtime/register"]
    plane.answers["/v1/runtime/register"] = lambda body: (200, usual(body)[1] | fields)


def stored(plane: FakeControlPlane, name: str, content: dict[str, str]) -> dict[str, Any]:
    """A checkpoint in the store, as a runtime is given it."""
    files = []
    for path, text in content.items():
        plane.objects[f"{name}/{path}"] = text.encode()
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        url = f"{plane.url}/s3/{name}/{path}"
        files.append({"path": path, "size_bytes": len(text), "sha256": sha256, "url": url})
    return {"checkpoint_id": name, "step": 0, "files": files}


def files_of(trainer: FakeTrainer) -> dict[str, str]:
    saved = {"weights": trainer.weights, "moments": trainer.moments, "steps": []}
    return {"state.json": json.dumps(saved)}


@pytest.fixture
async def trained() -> FakeTrainer:
    trainer = FakeTrainer()
    for step in range(1, 8):
        await trainer.forward_backward([], "grpo", loss_settings(SessionConfig()))
        await trainer.optim_step(await step_adam(trainer, SessionConfig(), step))
    return trainer


async def test_step_0_has_the_weights_and_moments_of_the_state_and_later_ones_follow(
    tmp_path: Path, trained: FakeTrainer
) -> None:
    volume_fill(tmp_path, ["a", "b"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        assign(plane, starts_from=stored(plane, "ckp_old", files_of(trained)), started_from=RECORD)
        async with learner_open(plane, tmp_path) as it:
            assert await it.learner.restore() == 0
            assert (it.trainer.weights, it.trainer.moments) == (trained.weights, trained.moments)
            assert trained.weights in it.engine.weights_text and it.engine.version == 0
            await it.train_next()
            after = it.trainer.weights
        # killed before it had saved: from the same state again
        async with learner_open(plane, tmp_path) as it:
            assert await it.learner.restore() == 1
            assert it.trainer.weights == after and it.engine.version == 1
            await it.checkpoints.save_state(1)
            await it.checkpoints.settle()
        assert resume_point(plane)["step"] == 1
        async with learner_open(plane, tmp_path) as it:
            assert state_of(it.assignment) == it.assignment.resume_from


async def test_its_own_state_of_step_0_is_no_reason_to_begin_at_the_base(
    tmp_path: Path, trained: FakeTrainer
) -> None:
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        assign(plane, starts_from=stored(plane, "ckp_old", files_of(trained)))
        async with learner_open(plane, tmp_path) as it:
            await it.learner.restore()
            await it.checkpoints.save_state(0)
            await it.checkpoints.settle()
        assert resume_point(plane)["step"] == 0
        async with learner_open(plane, tmp_path) as it:
            assert await it.learner.restore() == 0 and it.trainer.weights == trained.weights


async def test_a_trainer_that_is_killed_in_the_first_step_begins_at_the_state_again(
    tmp_path: Path, trained: FakeTrainer
) -> None:
    volume_fill(tmp_path, ["a"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        assign(plane, starts_from=stored(plane, "ckp_old", files_of(trained)))
        async with learner_open(plane, tmp_path) as it:
            await it.learner.restore()
            it.fail_at("optim_step 1", TrainerKilled("a rank was killed"))
            await it.train_next()
            killed = it.trainer.weights
        (tmp_path / "unharmed").mkdir()
        volume_fill(tmp_path / "unharmed", ["a"])
        async with learner_open(plane, tmp_path / "unharmed") as it:
            await it.learner.restore()
            await it.train_next()
            assert it.trainer.weights == killed


async def fetched(plane: FakeControlPlane, volume: Path) -> Assignment:
    config = runtime_config(plane, volume)
    async with Agent(config) as agent:
        session = Session(agent, await agent.register(), config, ObjectStore(agent))
        return (await base_folder.base_fetched(session)).assignment


async def test_a_model_stands_in_the_place_of_the_base(tmp_path: Path) -> None:
    with FakeControlPlane() as plane:
        assign(plane)
        assert (await fetched(plane, tmp_path)).base_model_path == ""
        assign(plane, serves=stored(plane, "ckp_m", {"config.json": "{}", "tokenizer.json": "{}"}))
        folder = Path((await fetched(plane, tmp_path)).base_model_path)
        assert folder.is_relative_to(tmp_path) and (folder / "tokenizer.json").read_text() == "{}"


async def test_what_a_tinker_client_saved_is_added_to_the_base_once(
    tmp_path: Path, monkeypatch
) -> None:
    merged: list[tuple[str, str]] = []

    class Trainer:
        def __init__(
            self, base: str, config: Any, device: str, *, on_progress: Callable[[], None]
        ) -> None:
            self.base = base

        async def export_merged(self, saved: Path, folder: Path) -> None:
            merged.append((self.base, saved.name))
            (folder / "config.json").write_text((saved / "model.json").read_text())

        async def close(self) -> None:
            """Nothing to end."""

    monkeypatch.setattr(base_folder, "ModelTrainerProcess", Trainer)
    with FakeControlPlane() as plane:
        assign(
            plane,
            serves=stored(plane, "ckp_t", {"model.json": "{}"}),
            base_model_path="/models/tiny",
        )
        for _ in range(2):
            folder = Path((await fetched(plane, tmp_path)).base_model_path)
            assert (folder / "config.json").read_text() == "{}"
    assert merged == [("/models/tiny", "ckp_t")]


async def test_a_quantised_base_is_computed_in_full_once_for_its_volume(
    tmp_path: Path, monkeypatch
) -> None:
    base, computed = tmp_path / "tiny-FP8", []
    base.mkdir()
    (base / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')

    async def dequantised(folder: Path, target: Path) -> None:
        computed.append(folder)
        (target / "config.json").write_text("{}")

    monkeypatch.setattr(base_folder, "dequantised", dequantised)
    with FakeControlPlane() as plane:
        assign(plane, base_model_path=str(base))
        for _ in range(2):
            folder = Path((await fetched(plane, tmp_path)).base_model_path)
            assert folder != base and (folder / "config.json").read_text() == "{}"
    assert computed == [base]


async def test_a_model_that_is_exported_says_what_it_came_from(
    tmp_path: Path, trained: FakeTrainer
) -> None:
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        assign(plane, starts_from=stored(plane, "ckp_old", files_of(trained)), started_from=RECORD)
        async with learner_open(plane, tmp_path) as it:
            await it.learner.restore()
            await it.checkpoints.export_model(0, "ckp_new")
        card = plane.objects["ckp_new/README.md"].decode()
    assert card.startswith('---\nbase_model: "tiny"\n')
    assert "state checkpoint ckp_old of session ses_old, step 7" in card and '"grpo_n": 2' in card
