"""An ordered checkpoint that cannot be made fails with its cause; the session goes on."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu_runtime.errors import (
    ControlPlaneRefused,
    DiskFull,
    InputUnusable,
    OutOfMemory,
    RuntimeFault,
    StoreUnavailable,
    TrainerKilled,
    UploadRefused,
)
from gpu_runtime.kinds.episodes import fulfil
from gpu_runtime.steps.checkpoints import upload_failed
from tinkerscript.wire.runtime import CheckpointFailure, CheckpointOrder


@dataclass
class Parts:
    """In place of agent, batches, learner and checkpoints."""

    fault: RuntimeFault | None = None
    policy_version: int = 3
    told: list[CheckpointFailure] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    again: list[Any] = field(default_factory=list)
    refuses: bool = False

    def stepping(self) -> Any:
        return pytest.MonkeyPatch.context()  # any block

    async def flush_batch(self) -> None:
        return None

    async def export_model(self, step: int, checkpoint_id: str) -> None:
        if self.fault is not None:
            raise self.fault

    save_state = export_model

    async def trainer_again(self, step: int) -> None:
        self.again.append(step)

    async def send(self, path: str, body: CheckpointFailure, *, deadline_s: float) -> None:
        if self.refuses:
            raise ControlPlaneRefused("not_found: no such route")
        assert path == "/v1/runtime/failed-checkpoints"
        self.told.append(body)

    def order_done(self, checkpoint_id: str) -> None:
        self.done.append(checkpoint_id)

    def order_failed(self, checkpoint_id: str) -> None:
        self.again.append(checkpoint_id)


async def made(parts: Parts, kind: str) -> Parts:
    order = CheckpointOrder(checkpoint_id="ckp_1", kind=kind)
    await fulfil(parts, order, parts, parts, parts)  # type: ignore[arg-type]
    return parts


@pytest.mark.parametrize("kind", ["model", "state"])
@pytest.mark.parametrize(
    "fault",
    [InputUnusable("export_model: ValueError: temperature"), DiskFull("export_model: full")],
)
async def test_what_would_fail_again_fails_the_checkpoint_alone(
    fault: RuntimeFault, kind: str
) -> None:
    parts = await made(Parts(fault), kind)
    assert [(each.checkpoint_id, each.reason) for each in parts.told] == [
        ("ckp_1", f"{fault} {fault.hint}")
    ]
    assert (parts.done, parts.again) == (["ckp_1"], [])


async def test_ranks_that_ran_out_of_memory_are_started_again(kind: str = "model") -> None:
    parts = await made(Parts(OutOfMemory("no memory")), kind)
    assert (len(parts.told), parts.again) == (1, [3])


async def test_a_store_that_is_away_only_delays_the_order() -> None:
    assert (await made(Parts(StoreUnavailable("away")), "model")).told == []


async def test_a_killed_rank_is_the_runtimes_end_as_ever() -> None:
    with pytest.raises(TrainerKilled):
        await made(Parts(TrainerKilled("killed")), "model")


async def test_a_server_that_does_not_take_it_changes_nothing() -> None:
    assert (await made(Parts(DiskFull("full"), refuses=True), "model")).done == ["ckp_1"]


async def test_refused_uploads_fail_their_order_and_others_come_again() -> None:
    parts = Parts()
    await upload_failed(parts, "ckp_1", UploadRefused("3 uploads in a row were refused: 403"))  # type: ignore[arg-type]
    await upload_failed(parts, "ckp_2", StoreUnavailable("away"))  # type: ignore[arg-type]
    await upload_failed(parts, None, UploadRefused("403"))  # type: ignore[arg-type]
    assert [each.checkpoint_id for each in parts.told] == ["ckp_1"]
    assert parts.again == ["ckp_2"]
