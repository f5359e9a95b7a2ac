"""The copy of a state for another number of ranks: there while they load it, and never left on the
volume.
"""

import asyncio
import json
from pathlib import Path

import pytest

from gpu_runtime.errors import DiskFull, TrainerFailed
from gpu_runtime.health import file_progress, free_room
from gpu_runtime.training.states.resharded_folder import (
    resharded_bytes,
    resharded_path,
    room_to_reshard,
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """What two ranks saved, under ZeRO 2."""
    folder = tmp_path / "state-00000003"
    (folder / "state").mkdir(parents=True)
    (folder / "trainer.json").write_text(json.dumps({"world_size": 2}))
    for rank in range(2):
        (folder / "state" / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").write_bytes(
            b"o" * 300
        )
    (folder / "state" / "mp_rank_00_model_states.pt").write_bytes(b"m" * 100)
    return folder


def ignored() -> None:
    """Of progress that no test looks at."""


async def test_a_fault_leaves_no_copy_behind(state: Path) -> None:
    with pytest.raises(TrainerFailed):
        async with room_to_reshard(state, 3, ignored):
            (resharded_path(state) / "state" / "part").write_bytes(b"half")
            raise TrainerFailed("a rank ended")
    assert [path.name for path in state.parent.iterdir()] == [state.name]


@pytest.mark.parametrize("ranks", [2, 3])
async def test_what_a_killed_runtime_left_is_removed_by_the_next(state: Path, ranks: int) -> None:
    left = state.with_name("resharded-state-00000001")
    left.mkdir()
    (left / "part").write_bytes(b"half")
    async with room_to_reshard(state, ranks, ignored):
        assert not left.exists()
        assert resharded_path(state).exists() == (ranks == 3), "its own ranks need no copy"
    assert [path.name for path in state.parent.iterdir()] == [state.name]


async def test_room_for_the_copy_is_looked_at_before_anything_is_written(
    state: Path, monkeypatch
) -> None:
    monkeypatch.setattr(free_room, "RESERVE_BYTES", 1 << 62)
    with pytest.raises(DiskFull, match="MiB are needed"):
        async with room_to_reshard(state, 3, ignored):
            pytest.fail("the block must not run")
    assert not resharded_path(state).exists()
    async with room_to_reshard(state, 2, ignored):
        """Nothing is written for ranks that load it as it is."""


def test_the_copy_of_a_sharded_state_has_weights_for_each_rank(state: Path) -> None:
    assert resharded_bytes(state, 3) == 2 * 300 + 100
    whole = state / "state" / "mp_rank_00_model_states.pt"
    for rank in range(2):
        whole.with_name(f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt").write_bytes(b"m" * 40)
    whole.unlink()
    assert resharded_bytes(state, 3) == 2 * 300 + 3 * 40


async def test_files_that_grow_are_progress(state: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_progress, "LOOK_S", 0.005)
    grown = asyncio.Event()
    async with room_to_reshard(state, 3, grown.set):
        (resharded_path(state) / "state" / "part").write_bytes(b"half")
        await asyncio.wait_for(grown.wait(), 25)


async def test_files_that_replace_others_one_by_one_are_progress(
    tmp_path: Path, monkeypatch
) -> None:
    """An encryption writes a file, removes what it was made from, and goes on with the next."""
    monkeypatch.setattr(file_progress, "LOOK_S", 0.005)
    grown, copy = asyncio.Event(), tmp_path / "second.age"
    (tmp_path / "first").write_bytes(b"f" * (1 << 20))
    async with asyncio.timeout(25), file_progress.report_file_progress(tmp_path, grown.set):
        await grown.wait()
        (tmp_path / "first").unlink()
        grown.clear()
        while not grown.is_set():
            with copy.open("ab") as file:
                file.write(b"s")
            await asyncio.sleep(0.005)
    assert copy.stat().st_size < 1 << 20, "no more than there was before"
