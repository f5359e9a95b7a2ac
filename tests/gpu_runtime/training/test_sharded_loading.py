"""Under ZeRO 3 no rank ever has the whole model on the host, and what is loaded in parts is the
model to the bit.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.training import ranks as ranks_module
from gpu_runtime.training.rank_process import rank_main
from gpu_runtime.training.ranks import TrainerRanks
from support.loading_memory import large_model_make, peak_path, rank_load_measured
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_probe import in_a_rank, sharded_and_whole
from support.rank_steps import gradient, logprobs, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
RANKS = 4
SLACK_BYTES = 24 << 20  # the largest weight, 12 MB, and what transformers allocates beside


async def peaks(
    model: Path, folder: Path, ranks: int, stage: int
) -> tuple[list[int], dict[str, torch.Tensor]]:
    """Bytes of each rank at most while it loads, and the weights that were loaded."""
    config = SessionConfig(
        trainer_ranks=ranks, zero_stage=stage, max_context_length=128, max_tokens=64
    )
    trainer = TrainerRanks(str(model), config, "cpu")
    try:
        await trainer.ready()
        await trainer.publish(folder)
        weights = {name: tensor.clone() for name, tensor in published_weights(folder).items()}
    finally:
        await trainer.close()
    return [int(peak_path(model, rank).read_text()) for rank in range(ranks)], weights


@pytest.mark.timeout(600)
async def test_a_rank_has_its_part_of_the_model_alone_while_it_loads(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(ranks_module, "rank_main", partial(rank_main, load=rank_load_measured))
    model = tmp_path / "model"
    whole_bytes = large_model_make(model)
    assert whole_bytes > 200e6
    of_each, weights = await peaks(model, tmp_path / "sharded", RANKS, 3)
    (of_one,), _ = await peaks(model, tmp_path / "whole", 1, 2)
    assert of_one >= whole_bytes, "what is measured sees a model that is whole"
    assert max(of_each) <= whole_bytes / RANKS + SLACK_BYTES, of_each
    for name, tensor in load_file(model / "model.safetensors").items():
        assert torch.equal(weights[name], tensor.float()), name


async def test_a_reference_in_parts_pulls_as_the_whole_one_does(tmp_path) -> None:
    """A moving reference and the base beside it, two ranks, over a state that one rank goes on
    from.
    """
    model = str(tiny_model_make(tmp_path / "tiny"))
    options = {"kl_coef": 0.1, "reference_decay": 0.75, "kl_base_coef": 0.05, "learning_rate": 1e-3}
    ends = []
    for stage, before, after in ((2, 1, 1), (3, 2, 1), (3, 1, 2)):
        folder = tmp_path / f"{stage}-{before}"
        config = SessionConfig(
            zero_stage=stage, trainer_ranks=before, micro_batch_tokens=64, **options
        )
        trainer = TrainerRanks(model, config, "cpu")
        try:
            for step in (1, 2):
                await gradient(trainer, batch(step))
                await optim_step(trainer, step)
            await trainer.save_state(folder / "state")
        finally:
            await trainer.close()
        trainer = TrainerRanks(model, config.model_copy(update={"trainer_ranks": after}), "cpu")
        try:
            await trainer.load_state(folder / "state")
            scores = await logprobs(trainer, batch(3), reference=True)
            await gradient(trainer, batch(3))
            await optim_step(trainer, 3)
            await trainer.publish(folder / "weights")
            ends.append(
                (scores, {k: v.clone() for k, v in published_weights(folder / "weights").items()})
            )
        finally:
            await trainer.close()
    (scores, weights), *others = ends
    for other_scores, other_weights in others:
        for one, other in zip(scores, other_scores, strict=True):
            assert other == pytest.approx(one, abs=1e-4)
        for name, tensor in weights.items():
            torch.testing.assert_close(other_weights[name], tensor, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_loaded_in_parts_computes_the_same_bits(tmp_path, dtype: str) -> None:
    """Weights, and buffers such as the frequencies of positions, which are in no file."""
    model = str(tiny_model_make(tmp_path))
    whole, parts = in_a_rank(sharded_and_whole, model, dtype)
    assert whole.keys() == parts.keys() and len(whole) > 20
    for name, tensor in whole.items():
        assert parts[name].dtype == tensor.dtype, name
        assert torch.equal(parts[name], tensor), name
