"""The files of a state: what some ranks write is found by any other number of them, and by the
trainer of Tinker clients.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.training.models.state_files import state_read
from gpu_runtime.training.objective import reference as reference_module
from gpu_runtime.training.objective.reference import EmaReference
from gpu_runtime.training.optimizer import adam_make
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.sharding import shards
from gpu_runtime.training.states.folder import StateRefused
from gpu_runtime.training.states.rank_state import RankState
from gpu_runtime.training.states.saved import SavedState, tensors_write
from tinkerscript.wire.config import SessionConfig

MOMENTS = ("exp_avg", "exp_avg_sq")


def model_make(begin: float, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """Weights of 15, 5 and 10 elements, none of them trained but these."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2, bias=False))
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(torch.arange(float(weight.numel())).view(weight.shape) + begin + number)
    return model.to(dtype)


def rank_of(model: torch.nn.Module, rank: int, ranks: int, step: int) -> tuple[RankState, object]:
    """A rank of ZeRO 2, of whose optimizer only the tensors are there: moments are weights + 100,
    + 200.
    """
    whole = torch.cat([weight.detach().float().view(-1) for weight in model.parameters()])
    part = -(-whole.numel() // (2 * ranks)) * 2
    whole = torch.cat([whole, torch.zeros(part * ranks - whole.numel())])
    flat = whole[rank * part : (rank + 1) * part].clone()
    state = {"step": torch.tensor(float(step)), "exp_avg": flat + 100, "exp_avg_sq": flat + 200}
    zero = SimpleNamespace(
        round_robin_bit16_groups=[list(model.parameters())],
        single_partition_of_fp32_groups=[flat],
        optimizer=SimpleNamespace(state={flat: state} if step else {}),
    )
    spec = RankSpec("", SessionConfig(trainer_ranks=ranks), rank, ranks, "", "cpu", 1)
    return RankState(zero, model, spec), zero


def ignored() -> None:
    """Of barriers and of progress."""


def saved_by(folder: Path, model: torch.nn.Module, ranks: int, step: int = 7) -> Path:
    folder.mkdir()
    for rank in reversed(range(ranks)):
        rank_of(model, rank, ranks, step)[0].save(folder, ignored, ignored)
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (4, 1)])
def test_other_ranks_find_weights_moments_and_step(
    tmp_path: Path, before: int, after: int, dtype: torch.dtype
) -> None:
    trained = model_make(3, dtype)
    state = saved_by(tmp_path / "state", trained, before)
    assert len(list(state.glob("optimizer-*.safetensors"))) == before
    for rank in range(after):
        model = model_make(50, dtype)
        own, zero = rank_of(model, rank, after, 0)
        _, wanted = rank_of(trained, rank, after, 7)
        own.load(SavedState(state), ignored)
        for one, other in zip(model.parameters(), trained.parameters(), strict=True):
            assert torch.equal(one, other)
        (flat,), (expected,) = (each.single_partition_of_fp32_groups for each in (zero, wanted))
        found, moments = zero.optimizer.state[flat], wanted.optimizer.state[expected]
        own_size = min(flat.numel(), max(0, 30 - rank * flat.numel()))
        assert torch.equal(flat[:own_size], expected[:own_size]) and found["step"] == 7
        for moment in MOMENTS:
            assert torch.equal(found[moment][:own_size], moments[moment][:own_size])


def test_a_state_before_the_first_step_has_no_moments(tmp_path: Path) -> None:
    state = saved_by(tmp_path / "state", model_make(3), 2, step=0)
    own, zero = rank_of(model_make(50), 0, 1, 9)
    own.load(SavedState(state), ignored)
    assert zero.optimizer.state == {}


def test_a_tinker_client_goes_on_from_the_state_of_ranks(tmp_path: Path) -> None:
    """Also where none of them had the weights whole, as under ZeRO 3."""
    trained, model = model_make(3, torch.bfloat16), model_make(50)
    state = saved_by(tmp_path / "state", trained, 3)
    (state / "weights.safetensors").unlink()
    weights = dict(model.named_parameters())
    optimizer = adam_make(weights.values())
    state_read(state, weights, optimizer, None, with_optimizer=True, with_gradient=True)
    for name, weight in trained.named_parameters():
        assert torch.equal(weights[name], weight.float()), name
        assert torch.equal(optimizer.state[weights[name]]["exp_avg"], weight.float() + 100), name


def sharded(model: torch.nn.Module, rank: int, ranks: int) -> torch.nn.Module:
    """With the parts of each weight that a rank of ZeRO 3 has, the last one filled up."""
    for number, weight in enumerate(model.parameters()):
        row, part = weight.detach().view(-1), -(-weight.numel() // ranks)
        row = torch.cat([row, torch.zeros(part * ranks - row.numel())])
        own = torch.nn.Parameter(row[rank * part : (rank + 1) * part].clone())
        weight.ds_id, weight.ds_numel, weight.ds_tensor = number, weight.numel(), own
    return model


def test_a_reference_that_moves_is_found_whole_and_in_parts(tmp_path: Path, monkeypatch) -> None:
    def as_rank(rank: int) -> None:
        for module in (shards, reference_module):
            monkeypatch.setattr(module, "rank", lambda: rank)

    wanted = [weight.detach().clone() for weight in model_make(3).parameters()]
    state = saved_by(tmp_path / "state", model_make(3), 3)
    assert not EmaReference(model_make(50), 0.9).load(SavedState(state)), "there is none"
    for rank in range(3):
        as_rank(rank)
        EmaReference(sharded(model_make(3), rank, 3), 0.9).save(state)
    as_rank(0)
    whole = model_make(50)
    assert EmaReference(whole, 0.9).load(SavedState(state))
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), wanted, strict=True))
    for rank in range(2):
        as_rank(rank)
        model = sharded(model_make(50), rank, 2)
        assert EmaReference(model, 0.9).load(SavedState(state))
        for weight, expected in zip(model.parameters(), wanted, strict=True):
            first, last = shards.own_range(weight)
            part = weight.ds_tensor[: last - first]
            assert torch.equal(part, expected.view(-1)[first:last])


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    state = saved_by(tmp_path / "state", model_make(3), 3)
    (state / "optimizer-00001.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(StateRefused, match="saved by 3 ranks, and 2 of their files"):
        SavedState(state)
    tensors_write(state / "optimizer-00001.safetensors", {"other": torch.zeros(2)})
    with pytest.raises(StateRefused, match=r"not all of exp_avg.0.weight: \d+ of 15 elements"):
        SavedState(state).moments("0.weight", 15)


def test_a_file_is_one_that_safetensors_reads_whatever_types_it_has(tmp_path: Path) -> None:
    tensors = {
        "narrow": torch.arange(3, dtype=torch.bfloat16),
        "wide": torch.arange(10.0).view(2, 5).t(),
    }
    advanced: list[bool] = []
    tensors_write(tmp_path / "file", tensors, advance=lambda: advanced.append(True))
    found = load_file(tmp_path / "file")
    assert found.keys() == tensors.keys() and len(advanced) == 2
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
