"""``sequence_parallel``: the ranks share the tokens of each row, and take the step of one rank."""

from contextlib import asynccontextmanager

import pytest
import torch

from gpu_runtime.errors import ModelUnsupported, PlacementImpossible
from gpu_runtime.loop.sample import Sample
from gpu_runtime.placement import placement_choose
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.training.sharding.sequence_parallel import SharedRow
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_steps import logprobs, optim_step, passed_over
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

ODD = Sample(
    (5, 9, 30, 41, 7, 8),
    (0, 0, 1, 1, 1, 1),
    (0.0, 0.0, -4.5, -4.5, -4.5, -4.5),
    advantage=0.5,
    group=9,
)
ROUNDING = 2e-5  # of steps of 1e-3, as between any two splits of the sum (test_ranks.py)


@asynccontextmanager
async def trainer_of(model: str, ranks: int, **options):
    config = SessionConfig(
        learning_rate=1e-3,
        micro_batch_tokens=64,
        trainer_ranks=ranks,
        sequence_parallel=ranks > 1,
        **options,
    )
    trainer = TrainerRanks(model, config, "cpu")
    try:
        yield trainer
    finally:
        await trainer.close()


async def steps(model: str, folder, ranks: int, **options) -> tuple[dict, list, dict]:
    """Metrics of two steps, log-probabilities after them, and weights."""
    async with trainer_of(model, ranks, **options) as trainer:
        metrics = {}
        for number in (1, 2):
            before = await logprobs(trainer, [*batch(number), ODD])
            samples = [*batch(number), ODD]
            metrics, passed = await passed_over(trainer, samples, entropy_coef=0.01)
            for one, other in zip(before, passed, strict=True):
                assert one == pytest.approx(other, abs=1e-5)
            metrics |= await optim_step(trainer, number)
        scores = await logprobs(trainer, batch(3))
        await trainer.publish(folder)
        return (
            metrics,
            scores,
            {name: tensor.clone() for name, tensor in published_weights(folder).items()},
        )


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("ranks", "heads", "options"),
    [
        (2, (2, 1), {"loss": "gspo", "gradient_checkpointing": True}),
        pytest.param(2, (4, 2), {"zero_stage": 3, "kl_coef": 0.1}, marks=pytest.mark.nightly),
        pytest.param(4, (4, 2), {}, marks=pytest.mark.nightly),
        pytest.param(2, (2, 2), {"lora_rank": 4}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
async def test_ranks_that_share_rows_take_the_step_of_one_rank(
    tmp_path, ranks: int, heads, options: dict
) -> None:
    """Of a row with an odd number of tokens too; and there may be fewer heads of keys than
    ranks.
    """
    model = str(tiny_model_make(tmp_path / "tiny", heads=heads))
    expected_metrics, expected_scores, expected = await steps(model, tmp_path / "one", 1, **options)
    metrics, scores, weights = await steps(model, tmp_path / "shared", ranks, **options)
    for name in ("loss", "grad_norm", "entropy", "tokens_trained", "tokens_computed", "kl_engine"):
        assert metrics[name] == pytest.approx(expected_metrics[name], rel=1e-4, abs=1e-6), name
    for one, other in zip(expected_scores, scores, strict=True):
        assert other == pytest.approx(one, abs=1e-4)
    largest = max(float((weights[name] - expected[name]).abs().max()) for name in expected)
    assert largest <= ROUNDING, largest


@pytest.mark.engine
async def test_heads_that_ranks_cannot_share_are_refused_with_the_numbers(tmp_path) -> None:
    model = str(tiny_model_make(tmp_path / "tiny", heads=(2, 1)))
    async with trainer_of(model, 3) as trainer:
        with pytest.raises(ModelUnsupported, match="2 heads, 1 of keys, among 3 ranks"):
            await trainer.ready()


def test_a_row_is_shared_out_whole() -> None:
    source = torch.tensor([0, 2, 3, 6])
    rows = [SharedRow(None, 7, rank, 3) for rank in range(3)]
    assert torch.cat([row.part(torch.arange(1, 8)) for row in rows]).tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        0,
        0,
    ]
    own = [row.own(source) for row in rows]
    assert [chosen[:count].tolist() for chosen, count in own] == [[0, 1], [2], [3]]
    assert [len(chosen) for chosen, _ in own] == [2, 2, 2], "every rank computes as many"
    assert [row.place(source[chosen[:count]]).tolist() for row, (chosen, count) in zip(rows, own, strict=True)] == [
        [0, 2], [0], [0]
    ]  # fmt: skip


def test_it_is_refused_of_one_rank_and_on_gpus() -> None:
    with pytest.raises(ValueError, match="only with trainer_ranks above 1"):
        SessionConfig(sequence_parallel=True)
    with pytest.raises(
        PlacementImpossible, match="sequence_parallel has been proven on CPUs alone"
    ):
        placement_choose(SessionConfig(sequence_parallel=True, trainer_ranks=2), ["0", "1"])
