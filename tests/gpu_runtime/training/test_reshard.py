"""A state goes on under another number of ranks: the same numbers in other places, and then the same steps."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

from gpu_runtime.errors import TrainerFailed
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_batches import batch
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
# Sums over ranks are taken in another order: a step of 1e-3 then differs by rounding of the gradient alone.
ROUNDING = 2e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


@asynccontextmanager
async def ranks(model: str, count: int, state: Path | None = None, **options):
    """A trainer of ``count`` ranks, which has loaded ``state``."""
    config = SessionConfig(learning_rate=1e-3, micro_batch_tokens=64, trainer_ranks=count, **options)
    trainer = TrainerRanks(model, config, "cpu")
    try:
        if state is not None:
            await trainer.load_state(state)
        yield trainer
    finally:
        await trainer.close()


async def step(trainer: TrainerRanks, number: int) -> None:
    await trainer.forward_backward(batch(number))
    await trainer.optim_step(number)


async def weights(trainer: TrainerRanks, folder: Path) -> dict[str, torch.Tensor]:
    await trainer.publish(folder)
    return {name: tensor.clone() for name, tensor in published_weights(folder).items()}


def tensors(state: Path) -> dict[str, torch.Tensor]:
    """Every tensor in the optimizer's part of a state by its place: weights in float32, moments, the step."""
    found: dict[str, torch.Tensor] = {}

    def walk(value: object, place: str) -> None:
        if isinstance(value, torch.Tensor):
            found[place] = value
        for name, each in value.items() if isinstance(value, dict) else ():
            walk(each, f"{place} {name}")
        for index, each in enumerate(value if isinstance(value, list) else ()):
            walk(each, f"{place} {index}")

    for path in sorted((state / "state").glob("*optim_states.pt")):
        walk(torch.load(path, weights_only=False), path.name)
    return found


async def change_and_back(model: str, folder: Path, between: int, **options) -> None:
    """One rank, ``between`` of them and one again, without a step and with one, beside a run that is not broken."""
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
    assert len(before) == 4 and before.keys() == after.keys()
    assert all(torch.equal(before[place], after[place]) for place in before), "moments too, to the bit"
    assert all(torch.equal(again[name], unbroken[name]) for name in unbroken)
    relative = 2**-7 if options.get("dtype") == "bfloat16" else 0  # a weight that is published has 8 bits
    for name, tensor in unbroken.items():
        torch.testing.assert_close(stepped[name], tensor, rtol=relative, atol=ROUNDING)
    assert not list(folder.glob("resharded-*"))


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
async def test_every_kind_of_state_goes_on_under_other_ranks(model, tmp_path, between: int, options: dict) -> None:
    await change_and_back(model, tmp_path, between, **options)


async def test_a_state_of_an_unknown_form_is_refused_in_words(model, tmp_path) -> None:
    async with ranks(model, 1) as trainer:
        await trainer.save_state(tmp_path / "state")
        (tmp_path / "state" / "trainer.json").write_text('{"world_size": 2}')  # and a part of it is not there
        path = tmp_path / "state" / "state" / "mp_rank_00_model_states.pt"
        torch.save(torch.load(path, weights_only=False) | {"dp_world_size": 2}, path)
        with pytest.raises(TrainerFailed, match="only its own 2 ranks can load"):
            await trainer.load_state(tmp_path / "state")
