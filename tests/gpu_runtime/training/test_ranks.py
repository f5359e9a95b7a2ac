"""The real trainer: DeepSpeed on a CPU with gloo, one rank and two, every ZeRO stage."""

import dataclasses
import math
import stat

import psutil
import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.errors import StepRefused, TrainerFailed
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_steps import gradient, logprobs, optim_step, passed_over
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


def config(**changes) -> SessionConfig:
    return SessionConfig(**{"learning_rate": 1e-3, "micro_batch_tokens": 64, **changes})


async def steps(trainer: TrainerRanks, first: int, last: int) -> dict[str, float]:
    metrics = {}
    for step in range(first, last + 1):
        before = await logprobs(trainer, batch(step))
        metrics, passed = await passed_over(trainer, batch(step))
        # of every rank, as a forward pass of its own has them
        for one, other in zip(before, passed, strict=True):
            assert one == pytest.approx(other, abs=1e-5) and any(one)
        metrics |= await optim_step(trainer, step)
    return metrics


async def weights(trainer: TrainerRanks, folder):
    await trainer.publish(folder)
    return published_weights(folder)


@pytest.fixture(scope="module")
def reference(model, tmp_path_factory):
    """Metrics and weights after two steps of one rank under ZeRO 2."""
    import asyncio

    async def run():
        trainer = TrainerRanks(model, config(), "cpu")
        try:
            return await steps(trainer, 1, 2), await weights(
                trainer, tmp_path_factory.mktemp("reference")
            )
        finally:
            await trainer.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("ranks", "stage"), [(1, 1), (1, 3), (2, 2), (2, 3)])
async def test_ranks_and_stages_take_the_same_step(model, reference, tmp_path, ranks, stage):
    trainer = TrainerRanks(model, config(trainer_ranks=ranks, zero_stage=stage), "cpu")
    try:
        metrics = await steps(trainer, 1, 2)
        measured = await weights(trainer, tmp_path)
        await trainer.export_model(tmp_path / "model")
    finally:
        await trainer.close()
    expected_metrics, expected = reference
    for name in ("loss", "grad_norm", "tokens_trained", "tokens_computed", "kl_engine"):
        assert metrics[name] == pytest.approx(expected_metrics[name], rel=1e-4, abs=1e-6), name
    for name, tensor in expected.items():
        # Two Adam steps move a weight by at most 2e-3; rounding may differ between splits of the
        # sum.
        torch.testing.assert_close(measured[name], tensor, rtol=0, atol=2e-5)
    exported = load_file(tmp_path / "model" / "model.safetensors")
    assert all(torch.equal(exported[name], measured[name]) for name in measured)


@pytest.mark.parametrize("ranks", [1, 2])
async def test_a_resumed_run_ends_with_the_same_bits(model, tmp_path, ranks):
    trainer = TrainerRanks(model, config(trainer_ranks=ranks), "cpu")
    try:
        await steps(trainer, 1, 2)
        await trainer.save_state(tmp_path / "state")
        await steps(trainer, 3, 4)
        unkilled = await weights(trainer, tmp_path / "a")
    finally:
        await trainer.close()
    resumed = TrainerRanks(model, config(trainer_ranks=ranks), "cpu")
    try:
        await resumed.load_state(tmp_path / "state")
        await steps(resumed, 3, 4)
        again = await weights(resumed, tmp_path / "b")
    finally:
        await resumed.close()
    assert all(torch.equal(unkilled[name], again[name]) for name in unkilled)


@pytest.mark.parametrize(
    ("stage", "dtype"), [(2, "float32"), (3, "float32"), (1, "bfloat16"), (2, "bfloat16")]
)
async def test_a_gradient_that_is_not_finite_is_refused_and_the_weights_stand(
    model, tmp_path, stage, dtype
):
    trainer = TrainerRanks(model, config(zero_stage=stage, dtype=dtype), "cpu")
    try:
        await steps(trainer, 1, 1)
        before = await weights(trainer, tmp_path / "before")
        poisoned = [dataclasses.replace(sample, advantage=math.nan) for sample in batch(2)]
        await gradient(trainer, poisoned)
        with pytest.raises(StepRefused, match="not finite"):
            await optim_step(trainer, 2)
        after = await weights(trainer, tmp_path / "after")
        assert all(torch.equal(before[name], after[name]) for name in before)
        await steps(trainer, 2, 2)  # the next batch trains as if the refused one had never been
        assert all(
            torch.isfinite(tensor).all()
            for tensor in (await weights(trainer, tmp_path / "next")).values()
        )
    finally:
        await trainer.close()


async def test_a_killed_rank_is_a_named_failure_not_a_hang(model):
    trainer = TrainerRanks(model, config(), "cpu")
    try:
        await trainer.ready()
        trainer.processes[0].kill()
        with pytest.raises(TrainerFailed, match="was killed"):
            await gradient(trainer, batch(1))
    finally:
        await trainer.close()


async def test_ranks_listen_on_this_machine_alone(model) -> None:
    """They are on the network of other runtimes, or of a laptop; what they send one another is no
    one else's.
    """
    trainer = TrainerRanks(model, config(trainer_ranks=2), "cpu")
    try:
        await trainer.ready()
        open_there = [
            found
            for it in trainer.processes
            for found in psutil.Process(it.pid).net_connections("tcp")
        ]
        rendezvous = trainer._rendezvous  # noqa: SLF001 - where they found each other
        assert stat.S_IMODE(rendezvous.stat().st_mode) == 0o700
    finally:
        await trainer.close()
    assert not rendezvous.exists()
    listening = [found.laddr.ip for found in open_there if found.status == psutil.CONN_LISTEN]
    assert len(trainer.processes) == 2 and len(listening) > 1 and set(listening) == {"127.0.0.1"}
