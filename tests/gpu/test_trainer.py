"""The trainer on a CUDA device: FlexAttention over trees, bf16, ZeRO, the same step again."""

import random

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.losses import clipped_ratio
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.training.rows.packing import pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from support.rank_steps import gradient, optim_step
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import ADVANTAGES

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
SHAPE = {"groups": 2, "grpo_n": 4, "prompt": 150, "completion": 40, "vocabulary": 90}


def group_samples(
    *, groups: int, grpo_n: int, prompt: int, completion: int, vocabulary: int, seed: int = 0
):
    """``groups`` x ``grpo_n`` samples that share their group's prompt; lengths in tokens."""
    rng = random.Random(seed)
    samples = []
    for group in range(groups):
        shared = [rng.randrange(2, vocabulary) for _ in range(prompt)]
        for member in range(grpo_n):
            answer = [rng.randrange(2, vocabulary) for _ in range(completion)]
            samples.append(
                Sample(
                    tuple(shared + answer),
                    (0,) * prompt + (1,) * completion,
                    (0.0,) * prompt + (-4.5,) * completion,
                    advantage=(-1.0) ** member,
                    group=group,
                )  # fmt: skip
            )
    return samples


def loss_and_gradient(policy, samples, rows, device):
    policy.zero_grad()
    total = 0.0
    data = sample_data(samples)
    for indices in rows:
        row = RowTensors.of(pack_row(data, indices), data, device)
        loss = clipped_ratio(
            torch.exp(policy(row) + 4.5), row.loss_input(ADVANTAGES), 0.8, 1.2
        ).sum()
        loss.backward()
        total += loss.item()
    return total, torch.cat([p.grad.flatten().float().cpu() for p in policy.parameters()])


def test_flex_attention_over_a_tree_equals_sdpa_on_each_sample(
    tiny_folder, record_property, device
):
    samples = group_samples(**SHAPE)
    gpu, cpu = torch.device(device), torch.device("cpu")
    on_gpu = Policy.load(str(tiny_folder), torch.float32, device=device).to(gpu)
    on_cpu = Policy.load(str(tiny_folder), torch.float32)
    packed = loss_and_gradient(on_gpu, samples, [range(8)], gpu)
    alone = loss_and_gradient(on_cpu, samples, [[i] for i in range(8)], cpu)
    assert packed[0] == pytest.approx(alone[0], rel=1e-3, abs=1e-2)
    distance = ((packed[1] - alone[1]).norm() / alone[1].norm()).item()
    record_property("distance of the gradient over its norm", distance)
    assert distance < 1e-3


@pytest.mark.parametrize("stage", [2, 3])
async def test_the_same_batch_gives_the_same_bits_and_its_likelihood_follows_the_advantage(
    tiny_folder, tmp_path, stage
):
    config = SessionConfig(learning_rate=1e-3, zero_stage=stage, loss="importance_sampling")
    finals = []
    for run in range(2):
        trainer = TrainerRanks(str(tiny_folder), config, "cuda")
        try:
            for step in (1, 2, 3):
                metrics = await gradient(trainer, group_samples(**SHAPE))
                metrics |= await optim_step(trainer, step)
            await trainer.export_model(tmp_path / str(run))
        finally:
            await trainer.close()
        finals.append(load_file(tmp_path / str(run) / "model.safetensors"))
        assert metrics["grad_norm"] > 0
    difference = max(
        (finals[0][name].float() - finals[1][name].float()).abs().max().item() for name in finals[0]
    )
    assert difference == 0.0
