"""Each trained token carries the advantage of the call that sampled it into the loss."""

from dataclasses import replace

import pytest

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.rows.packing import pack_row
from support.rank_steps import gradient, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import ADVANTAGES

TOKENS, MASK = (7, 1, 2, 7, 3, 4), (0, 1, 1, 0, 1, 1)


def sample(advantage: float, by_token: tuple[float, ...] | None = None, tokens=TOKENS) -> Sample:
    return Sample(tokens, MASK, (0.0,) * len(MASK), advantage, advantages_T=by_token)


def by_target(samples: list[Sample]) -> list[tuple[int, int, float]]:
    """(sample, token, advantage) of every trained token of one packed row."""
    data = sample_data(samples)
    row = pack_row(data, range(len(samples)))
    advantages_K = row.entry_values(datum.loss_inputs[ADVANTAGES] for datum in data)
    return sorted(
        zip(row.datum_K.tolist(), row.target_K.tolist(), advantages_K.tolist(), strict=True)
    )


def test_tokens_of_a_packed_row_keep_their_own_advantages() -> None:
    """Two samples that share tokens, one with an advantage per token: a tree mixes them and loses
    none.
    """
    samples = [
        sample(0.5, (0.0, 2.0, 2.0, 0.0, -1.0, -1.0)),
        sample(-3.0, tokens=(7, 1, 2, 7, 5, 6)),
    ]
    assert by_target(samples) == [
        *((0, 1, 2.0), (0, 2, 2.0), (0, 3, -1.0), (0, 4, -1.0)),
        *((1, 1, -3.0), (1, 2, -3.0), (1, 5, -3.0), (1, 6, -3.0)),
    ]


def test_equal_advantages_by_token_are_the_samples_own() -> None:
    assert by_target([sample(2.0, (0.0, 2.0, 2.0, 0.0, 2.0, 2.0))]) == by_target([sample(2.0)])


def test_a_sample_has_signal_unless_every_advantage_is_zero() -> None:
    assert sample(0.0, (0.0, 1.0, 1.0, 0.0, -1.0, -1.0)).has_signal, "their mean is no measure"
    assert not sample(0.0, (0.0,) * 6).has_signal
    assert sample(0.1).has_signal
    assert not sample(0.0).has_signal


@pytest.mark.engine
async def test_the_trainer_multiplies_each_token_by_its_own(tmp_path) -> None:
    """One timeline of two calls takes the step of two samples of a call each, where every token
    counts alike.
    """
    from gpu_runtime.training.ranks import TrainerRanks

    def part(advantage: float, mask: tuple[int, ...]) -> Sample:
        return Sample(TOKENS, mask, tuple(-4.5 * trained for trained in mask), advantage)

    merged = Sample(TOKENS, MASK, tuple(-4.5 * trained for trained in MASK), 0.0)
    merged = replace(merged, advantages_T=(0.0, 2.0, 2.0, 0.0, -1.0, -1.0))
    split = [part(2.0, (0, 1, 1, 0, 0, 0)), part(-1.0, (0, 0, 0, 0, 1, 1))]
    trainer = TrainerRanks(
        str(tiny_model_make(tmp_path)), SessionConfig(loss="dapo", learning_rate=1e-9), "cpu"
    )
    try:
        found = []
        for step, samples in enumerate(
            ([merged], split, [replace(merged, advantages_T=None, advantage=0.5)]), 1
        ):
            found.append(await gradient(trainer, samples) | await optim_step(trainer, step))
    finally:
        await trainer.close()
    for name in ("loss", "grad_norm", "tokens_trained"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4), name
    assert found[0]["grad_norm"] != pytest.approx(found[2]["grad_norm"], rel=1e-2), (
        "their mean is another step"
    )
