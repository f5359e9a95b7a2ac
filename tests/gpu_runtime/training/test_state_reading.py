"""A state is data: what a forged file of one would run is not run, whoever reads it."""

from pathlib import Path

import pytest
import torch

from gpu_runtime.training.states.reading import SAVED, StateEngine, StateRefused, state_load
from gpu_runtime.training.states.reshard import reshard
from support.forged_pickle import Forged


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "zero_pp_rank_0_mp_rank_00_optim_states.pt"
    path.parent.mkdir()
    torch.save({"optimizer_state_dict": Forged(tmp_path / "made"), "dp_world_size": 1}, path)
    return path


def test_a_forged_state_runs_nothing(forged: Path, tmp_path: Path) -> None:
    def reads_for_other_ranks() -> None:
        reshard(tmp_path, tmp_path, 0, 2, sub_group=1, advance=lambda: None)

    for read in (
        lambda: state_load(forged),
        lambda: StateEngine().load(str(forged)),
        reads_for_other_ranks,
    ):
        with pytest.raises(
            StateRefused, match=r"optim_states\.pt was not loaded: it is no state's.*mkdir"
        ):
            read()
    assert not (tmp_path / "made").exists()
    torch.load(forged, weights_only=False)
    assert (tmp_path / "made").exists(), "it is one that would"


def test_what_deepspeed_saves_is_read(tmp_path: Path) -> None:
    stage, address, scaler = SAVED
    whole = {
        "stage": stage.optimizer_states,
        "where": address(numel=2, start=0),
        "scale": scaler(1.0),
    }
    torch.save(
        whole | {"weights": [torch.arange(3.0, dtype=torch.bfloat16)]}, tmp_path / "saved.pt"
    )
    found = state_load(tmp_path / "saved.pt", map_location="cpu", mmap=True)
    assert (found["stage"], found["where"]) == (whole["stage"], whole["where"])
    assert found["scale"].cur_scale == 1.0 and found["weights"][0].tolist() == [0, 1, 2]
