"""A state goes on under another number of ranks: the same numbers in other places, and then the
same steps.
"""

from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.errors import InputUnusable
from gpu_runtime.training import rank_process, remote_model
from gpu_runtime.training import ranks as ranks_module
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_process import rank_main
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.training.states.saved import SavedState
from support.forged_pickle import Forged
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_probe import earlier_state_loaded, in_a_rank, rank_load_in_sub_groups
from support.rank_steps import gradient, logprobs, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
# Sums over ranks are taken in another order: a step of 1e-3 then differs by rounding of the
# gradient alone.
ROUNDING = 2e-5
# In bfloat16 each rank rounds its gradient to 8 bits before the sum: where the parts nearly cancel,
# what is left is off by a tenth. A moment in another weight's place would change steps of 1e-3 as a
# whole.
ROUNDING_BFLOAT16 = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


@asynccontextmanager
async def ranks(model: str, count: int, state: Path | None = None, **options):
    """A trainer of ``count`` ranks, which has loaded ``state`` and reported progress meanwhile."""
    config = SessionConfig(
        learning_rate=1e-3, micro_batch_tokens=64, trainer_ranks=count, **options
    )
    heard: list[bool] = []
    trainer = TrainerRanks(model, config, "cpu", on_progress=lambda: heard.append(True))
    try:
        if state is not None:
            await trainer.load_state(state)
            assert heard
        yield trainer
    finally:
        await trainer.close()


async def step(trainer: TrainerRanks, number: int) -> None:
    await gradient(trainer, batch(number))
    await optim_step(trainer, number)


async def weights(trainer: TrainerRanks, folder: Path) -> dict[str, torch.Tensor]:
    await trainer.publish(folder)
    return {name: tensor.clone() for name, tensor in published_weights(folder).items()}


def tensors(state: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a rank's file of a state: moments, and weights in float32 where they are
    rounded.
    """
    return {
        f"{path.name} {name}": tensor
        for path in sorted(state.glob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


async def change_and_back(model: str, folder: Path, between: int, **options) -> None:
    """One rank, ``between`` of them and one again, without a step and with one, beside a run that
    is not broken.
    """
    async with ranks(model, 1, **options) as one:
        await step(one, 1)
        await step(one, 2)
        await one.save_state(folder / "one")
        saved = await weights(one, folder / "saved")
        await step(one, 3)
        await step(one, 4)
        unbroken = await weights(one, folder / "unbroken")
    async with ranks(model, between, folder / "one", **options) as others:
        loaded = await weights(others, folder / "loaded")
        assert all(torch.equal(loaded[name], saved[name]) for name in saved), "to the bit"
        await others.save_state(folder / "between")
        await step(others, 3)
        await others.save_state(folder / "later")
    async with ranks(model, 1, folder / "between", **options) as back:
        await back.save_state(folder / "back")
        await step(back, 3)
        await step(back, 4)
        again = await weights(back, folder / "again")
        await back.load_state(folder / "later")
        await step(back, 4)
        stepped = await weights(back, folder / "stepped")
    before, after = tensors(folder / "one"), tensors(folder / "back")
    assert before.keys() == after.keys() and any("exp_avg_sq" in place for place in before)
    assert all(torch.equal(before[place], after[place]) for place in before), (
        "moments too, to the bit"
    )
    assert all(torch.equal(again[name], unbroken[name]) for name in unbroken)
    bfloat16 = options.get("dtype") == "bfloat16"
    # a published weight has 8 bits
    absolute, relative = (ROUNDING_BFLOAT16, 2**-7) if bfloat16 else (ROUNDING, 0)
    for name, tensor in unbroken.items():
        torch.testing.assert_close(stepped[name], tensor, rtol=relative, atol=absolute)


async def test_another_number_of_ranks_goes_on_from_a_state(model, tmp_path) -> None:
    """Three cut nothing here evenly: the last part is filled up."""
    await change_and_back(model, tmp_path, 3, zero_stage=2)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("between", "options"),
    [
        (4, {"zero_stage": 1}),
        (2, {"zero_stage": 2}),
        (3, {"zero_stage": 3}),
        (4, {"zero_stage": 3}),
        (2, {"zero_stage": 2, "lora_rank": 8}),
        (3, {"zero_stage": 3, "lora_rank": 8}),
        (2, {"zero_stage": 2, "dtype": "bfloat16"}),
        (2, {"zero_stage": 2, "kl_coef": 0.1, "reference_decay": 0.9}),
    ],
    ids=str,
)
async def test_every_kind_of_state_goes_on_under_other_ranks(
    model, tmp_path, between: int, options: dict
) -> None:
    await change_and_back(model, tmp_path, between, **options)


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_a_sharded_state_of_several_sub_groups_goes_on_under_other_ranks(
    model, tmp_path, monkeypatch
) -> None:
    """One rank has more elements than three: its sub-groups end elsewhere."""
    monkeypatch.setattr(ranks_module, "rank_main", partial(rank_main, load=rank_load_in_sub_groups))
    await change_and_back(model, tmp_path, 3, zero_stage=3)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", [2, pytest.param(3, marks=pytest.mark.nightly)])
async def test_a_run_goes_on_over_one_two_four_and_one_ranks(model, tmp_path, stage: int) -> None:
    """A step by each, from the state of the one before; beside it four steps of one rank without a
    break.
    """
    state: Path | None = None
    for number, count in enumerate((1, 2, 4, 1), start=1):
        async with ranks(model, count, state, zero_stage=stage) as trainer:
            await step(trainer, number)
            state = tmp_path / f"after-{number}"
            await trainer.save_state(state)
            changed = await weights(trainer, tmp_path / f"weights-{number}")
    async with ranks(model, 1, zero_stage=stage) as one:
        for number in range(1, 5):
            await step(one, number)
        unbroken = await weights(one, tmp_path / "unbroken")
    largest = max(float((changed[name] - unbroken[name]).abs().max()) for name in unbroken)
    assert largest <= ROUNDING, largest


async def test_a_state_without_the_file_of_a_rank_is_refused_in_words(model, tmp_path) -> None:
    async with ranks(model, 2) as trainer:
        await step(trainer, 1)
        await trainer.save_state(tmp_path / "state")
        (tmp_path / "state" / "optimizer-00001.safetensors").unlink()
        with pytest.raises(InputUnusable, match="saved by 2 ranks, and 1 of their files"):
            await trainer.load_state(tmp_path / "state")


async def test_ranks_wait_in_a_collective_for_as_long_as_any_command_may_last(
    monkeypatch, tmp_path
) -> None:
    made: dict[str, object] = {}
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda *_, **options: made.update(options)
    )
    spec = RankSpec("", SessionConfig(), 0, 1, str(tmp_path / "store"), "cpu", 1)
    rank_process._process_group_make(spec, "gloo")  # noqa: SLF001
    assert made["timeout"] == timedelta(seconds=rank_process.COLLECTIVE_S)
    assert max(remote_model.STEP_S, remote_model.WEIGHTS_S) <= rank_process.COLLECTIVE_S


async def test_a_state_with_a_forged_file_fails_by_name_and_runs_nothing(model, tmp_path) -> None:
    forged = tmp_path / "state" / "state" / "zero_pp_rank_0_mp_rank_00_optim_states.pt"
    forged.parent.mkdir(parents=True)
    torch.save({"optimizer_state_dict": Forged(tmp_path / "made")}, forged)
    async with ranks(model, 1) as one:
        with pytest.raises(InputUnusable, match="StateRefused: .*optim_states.pt was not loaded"):
            await one.load_state(tmp_path / "state")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("stage", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_a_state_of_the_release_before_goes_on_with_the_same_bits(model, stage: int) -> None:
    unbroken, resumed = in_a_rank(
        earlier_state_loaded, model, SessionConfig(learning_rate=1e-3, zero_stage=stage), batch(1)
    )
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)


async def test_a_tinker_client_goes_on_from_the_state_of_the_managed_loop(model, tmp_path) -> None:
    """One form: the weights and the moments of two ranks, to the bit."""
    async with ranks(model, 2, zero_stage=3) as two:
        await step(two, 1)
        await two.save_state(tmp_path / "state")
        await two.export_model(tmp_path / "model")
    spec = RankSpec(model, SessionConfig(), 0, 1, "", "cpu", 1)
    clients = BaseWithModels(spec)
    clients.create_model("m", None)
    clients.load_state("m", tmp_path / "state", True, False)
    clients.save_state("m", tmp_path / "again")
    weights = load_file(tmp_path / "again" / "weights.safetensors")
    exported = load_file(tmp_path / "model" / "model.safetensors")
    assert weights and all(torch.equal(weights[name], exported[name]) for name in weights)
    before, after = SavedState(tmp_path / "state"), SavedState(tmp_path / "again")
    assert before.step == after.step == 1
    for name, weight in weights.items():
        for (_, one), (_, other) in zip(
            before.moments(name, weight.numel()), after.moments(name, weight.numel()), strict=True
        ):
            assert torch.equal(one, other), name


async def test_another_session_begins_with_the_bits_of_a_state_or_of_an_exported_model(
    model, tmp_path
) -> None:
    async with ranks(model, 1) as first:
        await step(first, 1)
        await first.save_state(tmp_path / "state")
        await first.export_model(tmp_path / "model")
        trained = await weights(first, tmp_path / "trained")
    # The state has none of it.
    moved = {"kl_coef": 0.1, "reference_decay": 0.9, "weight_decay": 0.1, "adam_beta1": 0.8}
    async with ranks(model, 1, tmp_path / "state", **moved) as second:
        begun = await weights(second, tmp_path / "begun")
        assert trained.keys() == begun.keys() and all(
            torch.equal(trained[name], begun[name]) for name in trained
        )
        own = await logprobs(second, batch(2))
        reference = await logprobs(second, batch(2), reference=True)
        assert own == reference, "the moving reference begins at the policy"
        await second.save_state(tmp_path / "again")
        await step(second, 1)
    saved, again = tensors(tmp_path / "state"), tensors(tmp_path / "again")
    own = {name for name in again if not name.startswith("reference-")}
    assert saved.keys() == own < again.keys() and any("exp_avg_sq" in name for name in saved)
    assert all(torch.equal(saved[name], again[name]) for name in saved)
    async with ranks(str(tmp_path / "model"), 1) as third:
        begun = await weights(third, tmp_path / "from-model")
        assert all(torch.equal(trained[name], begun[name]) for name in trained)
        await third.save_state(tmp_path / "fresh")
    assert not any("exp_avg" in name for name in tensors(tmp_path / "fresh")), (
        "its optimizer begins anew"
    )
