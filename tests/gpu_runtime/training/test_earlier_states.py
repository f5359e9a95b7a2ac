"""A state of the release before: found whole, and what a forged file of one would run is not run."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gpu_runtime.training.models.state_files import state_read, state_write
from gpu_runtime.training.optimizer import adam_make
from gpu_runtime.training.states.earlier import SAVED, state_load
from gpu_runtime.training.states.folder import StateRefused
from gpu_runtime.training.states.saved import SavedState
from support.forged_pickle import Forged


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "zero_pp_rank_0_mp_rank_00_optim_states.pt"
    path.parent.mkdir()
    torch.save({"optimizer_state_dict": Forged(tmp_path / "made"), "dp_world_size": 1}, path)
    return path


def test_a_forged_state_runs_nothing(forged: Path, tmp_path: Path) -> None:
    for read in (lambda: state_load(forged), lambda: SavedState(tmp_path)):
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
    found = state_load(tmp_path / "saved.pt")
    assert (found["stage"], found["where"]) == (whole["stage"], whole["where"])
    assert found["scale"].cur_scale == 1.0 and found["weights"][0].tolist() == [0, 1, 2]


# Sharded states as DeepSpeed writes them, of parameters whose sizes nothing divides.

SIZES = {"a": 7, "b": 11, "c": 5, "d": 13, "e": 3}


def saved(folder: Path, ranks: int, groups: Sequence[str]) -> Path:
    """What ``ranks`` ranks save under ZeRO 3, of sub-groups of these parameters: each number tells
    its place.
    """
    (folder / "state").mkdir(parents=True)
    shapes = [{f"model.{name}": torch.Size([SIZES[name]]) for name in group} for group in groups]
    for rank in range(ranks):

        def of_rank(kind: int, rank: int = rank) -> list[torch.Tensor]:
            return [
                torch.cat([part(name, kind, rank, ranks) for name in group]) for group in groups
            ]

        moments = zip(of_rank(1), of_rank(2), strict=True)
        state = {
            n: {"step": torch.tensor(2.0), "exp_avg": a, "exp_avg_sq": b}
            for n, (a, b) in enumerate(moments)
        }
        base = {"state": state, "param_groups": [{"lr": 0.5, "params": list(range(len(groups)))}]}
        optimizer = {
            "optimizer_state_dict": base,
            "fp32_flat_groups": of_rank(0),
            "partition_count": ranks,
        }
        name = f"zero_pp_rank_{rank}_mp_rank_00"
        torch.save(
            {"optimizer_state_dict": optimizer}, folder / "state" / f"{name}_optim_states.pt"
        )
        torch.save(
            {"dp_world_size": ranks, "param_shapes": shapes},
            folder / "state" / f"{name}_model_states.pt",
        )
    return folder


def part(name: str, kind: int, rank: int, ranks: int) -> torch.Tensor:
    """The equal part of one rank, zeros behind what there is."""
    size = -(-SIZES[name] // ranks)
    whole = values(name, kind) + [0.0] * size * ranks
    return torch.tensor(whole[rank * size : (rank + 1) * size])


def values(name: str, kind: int) -> list[float]:
    return [1000.0 * kind + 100.0 * ord(name) + place for place in range(SIZES[name])]


def cut(folder: Path, ranks: int, names: str) -> Path:
    """What ``ranks`` ranks save under ZeRO 1 and 2: moments are filled up, weights are not."""
    (folder / "state").mkdir(parents=True)
    shapes = [{f"model.{name}": torch.Size([SIZES[name]]) for name in names}]
    rows = [[value for name in names for value in values(name, kind)] for kind in range(3)]
    size = -(-len(rows[0]) // (2 * ranks)) * 2
    for rank in range(ranks):
        at = slice(rank * size, (rank + 1) * size)
        weights, *moments = (torch.tensor(row[at]) for row in rows)
        first, second = (torch.cat([row, torch.zeros(size - row.numel())]) for row in moments)
        optimizer = {
            "base_optimizer_state": {
                "state": {0: {"step": torch.tensor(2.0), "exp_avg": first, "exp_avg_sq": second}}
            },
            "single_partition_of_fp32_groups": [weights],
        }
        name = f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": optimizer}, folder / "state" / name)
    torch.save(
        {"dp_world_size": ranks, "param_shapes": shapes},
        folder / "state" / "mp_rank_00_model_states.pt",
    )
    return folder


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("groups", [None, ["abcde"], ["a", "bc", "de"]], ids=str)
def test_every_element_of_an_earlier_state_is_found_whatever_ranks_saved_it(
    tmp_path: Path, ranks: int, groups: list[str] | None
) -> None:
    folder = saved(tmp_path, ranks, groups) if groups else cut(tmp_path, ranks, "abcde")
    state = SavedState(folder)
    assert state.step == 2
    for name, size in SIZES.items():
        assert state.weight_row(name, size).tolist() == values(name, 0)
        for kind, (_, row) in enumerate(state.moments(name, size), start=1):
            assert row.tolist() == values(name, kind)
        assert state.weight_row(name, size - 1, 1).tolist() == values(name, 0)[1:-1]


@pytest.mark.parametrize("sharded", [False, True])
def test_an_earlier_reference_that_moves_is_found(tmp_path: Path, sharded: bool) -> None:
    cut(tmp_path, 1, "abcde")
    assert "reference.0" not in SavedState(tmp_path)
    means = [torch.arange(6.0).view(2, 3), torch.arange(2.0)]
    if sharded:
        (tmp_path / "reference").mkdir()
        named = {str(number): mean for number, mean in enumerate(means)}
        save_file(named, tmp_path / "reference" / "weights.safetensors")
    else:
        torch.save(means, tmp_path / "reference.pt")
    state = SavedState(tmp_path)
    assert state.row("reference.0", 5, 2).tolist() == [2, 3, 4]
    assert state.row("reference.1", 2).tolist() == [0, 1]


def test_an_earlier_state_without_the_file_of_a_rank_is_refused(tmp_path: Path) -> None:
    cut(tmp_path, 3, "abcde")
    (tmp_path / "state" / "zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
    with pytest.raises(StateRefused, match="only its own 3 ranks"):
        SavedState(tmp_path)


def test_an_earlier_state_of_a_tinker_client_is_read_and_written_in_the_new_form(
    tmp_path: Path,
) -> None:
    """Its moments had the shapes of their weights, in one file."""
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    rows = [torch.arange(6.0).view(2, 3) + kind for kind in range(4)]
    save_file({"w": rows[0]}, tmp_path / "weights.safetensors")
    save_file({"exp_avg.w": rows[1], "exp_avg_sq.w": rows[2]}, tmp_path / "optimizer.safetensors")
    save_file({"w": rows[3]}, tmp_path / "gradient.safetensors")
    (tmp_path / "model.json").write_text('{"lora": null, "step": 7}')
    for folder in (tmp_path, tmp_path / "again"):
        optimizer = adam_make([weight])
        state_read(folder, {"w": weight}, optimizer, None, with_optimizer=True, with_gradient=True)
        state = optimizer.state[weight]
        found = [weight.data, state["exp_avg"], state["exp_avg_sq"], weight.grad]
        assert state["step"] == 7
        assert all(torch.equal(*pair) for pair in zip(found, rows, strict=True))
        state_write(tmp_path / "again", {"w": weight}, optimizer, None)
    names = {path.name for path in (tmp_path / "again").iterdir()}
    assert "optimizer-00000.safetensors" in names and "optimizer.safetensors" not in names
