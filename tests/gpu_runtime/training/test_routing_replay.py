"""Recorded experts are replayed: loss and gradient are those of plain torch with the same experts,
whatever the family's router computes of its scores.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.checkpointing import layers_recompute
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import RowKind, pack
from gpu_runtime.training.rows.row_pass import RowModel, rows_pass
from gpu_runtime.training.rows.tensors import RowTensors
from support.model_families import MIXTURES, family_make
from support.plain_experts import WEIGHTS, blocks, by_hand
from tinkerscript.wire.config import SessionConfig

CPU = torch.device("cpu")
PROMPT, ANSWER = 9, 6


REPLAYED = [
    *(name for name in MIXTURES if name != "Phi-MoE"), "GPT-OSS", "Qwen3-Next", "Qwen3.5 MoE",
    "LFM2-MoE", "Granite 4 MoE", "Nemotron-H MoE", "Kimi Linear", "Llama 4 MoE",
]  # fmt: skip


def loaded(tmp_path: Any, name: str) -> Policy:
    policy = Policy.load(str(family_make(tmp_path, name)), torch.float32)
    policy_verify(policy, SessionConfig(max_context_length=128), CPU)  # chooses the kind of rows
    return policy


def recorded(before: Sequence[int], layers: int, chosen: int) -> bytes:
    """What a scripted engine chose to sample the token behind ``before``: a function of them alone."""
    draw = random.Random(str(list(before)))
    return bytes(expert for _ in range(layers) for expert in draw.sample(range(4), chosen))


def samples_of(layers: int, chosen: int = 2, *, with_experts: bool = True) -> list[Sample]:
    """Two groups of two answers; what sampled the first answer's second token is not recorded."""
    draw, samples = random.Random(3), []
    for group in range(2):
        prompt = [draw.randrange(2, 90) for _ in range(PROMPT)]
        for _ in range(2):
            ids = [*prompt, *(draw.randrange(2, 90) for _ in range(ANSWER))]
            rows = [
                recorded(ids[:t], layers, chosen) if PROMPT <= t != PROMPT + 1 else None
                for t in range(len(ids))
            ]
            samples.append(
                Sample(
                    tuple(ids), (0,) * PROMPT + (1,) * ANSWER, (-4.5,) * len(ids),
                    draw.uniform(-1, 1), group=group, experts_T=tuple(rows) if with_experts else None,
                )
            )  # fmt: skip
    return samples


def passed(policy: Policy, samples: Sequence[Sample]) -> tuple[float, dict[str, Tensor]]:
    """The loss, sum of -A log p over trained tokens, and its gradient, by packed rows."""
    policy.zero_grad()
    data, total = sample_data(samples, [1.0] * len(samples)), 0.0

    def loss(row: RowTensors) -> Callable[[Tensor], tuple[Tensor, None]]:
        advantages_K = row.loss_input("advantages")
        return lambda scores_K: (-(advantages_K * scores_K).sum(), None)

    model = RowModel(CPU, policy, Tensor.backward, kind=policy.kind)
    for row in rows_pass(model, data, pack(data, 400, range(len(samples)), policy.kind), loss):
        advantages_K = row.tree.entry_values(
            data[i].loss_inputs["advantages"] for i in row.tree.indices
        )
        total -= float((torch.from_numpy(advantages_K) * row.scores).sum())
    return total, {
        name: it.grad.clone() for name, it in policy.model.named_parameters() if it.grad is not None
    }


def plain(
    model: Any, name: str, samples: Sequence[Sample], layers: int
) -> tuple[float, dict[str, Tensor]]:
    """The same by one unpacked sample after the other, with the model's own attention."""
    attention = model.config._attn_implementation  # noqa: SLF001 - as model_check.py
    model.set_attn_implementation("eager")
    model.zero_grad()
    total = torch.zeros(())
    for sample in samples:
        ids_T = torch.tensor(sample.token_ids_T)
        rows = [list(each) if each else [-1] * 2 * layers for each in (sample.experts_T or ())[1:]]
        with by_hand(model, name, np.array(rows).reshape(len(rows), layers, 2)):
            logits_TV = model(ids_T[None, :-1], use_cache=False).logits[0]
            logprobs_T = logits_TV.log_softmax(1).gather(1, ids_T[1:, None])[:, 0]
            total = total - sample.advantage * logprobs_T[PROMPT - 1 :].sum()
            total.backward()
            total = total.detach()
    model.set_attn_implementation(attention)
    return total.item(), {
        n: it.grad.clone() for n, it in model.named_parameters() if it.grad is not None
    }


@pytest.mark.parametrize("name", WEIGHTS)
def test_loss_and_gradient_are_those_of_plain_torch_with_the_recorded_experts(
    tmp_path, name
) -> None:
    policy = loaded(tmp_path, name)
    layers = len(blocks(policy.model))
    samples = samples_of(layers)
    policy.replay.count()
    loss, gradient = passed(policy, samples)
    assert 0.3 < policy.replay.measured(1)["routing_differs"] < 0.8  # chosen at random
    policy.replay.begin(None)
    expected, wanted = plain(policy.model, name, samples, layers)
    assert loss == pytest.approx(expected, abs=1e-4)
    assert gradient.keys() == wanted.keys()
    largest = max(it.abs().max() for it in wanted.values())
    for key, it in wanted.items():
        torch.testing.assert_close(gradient[key], it, rtol=0, atol=float(largest) * 1e-5)
    without, _ = passed(policy, samples_of(layers, with_experts=False))
    assert abs(without - expected) > 0.05  # else nothing was replayed


@pytest.mark.parametrize("name", REPLAYED)
def test_every_family_that_takes_the_best_scores_replays(tmp_path, name) -> None:
    """Experts of the model's own choice change nothing, and others change its log-probabilities."""
    policy = loaded(tmp_path, name)
    layers = len(blocks(policy.model))
    chosen = 1 if name == "Llama 4 MoE" else 2
    with torch.no_grad():
        policy.replay.count()
        others, _ = scores(policy, samples_of(layers, chosen))
        assert 0.2 < policy.replay.measured(1)["routing_differs"] < 0.9
        own, _ = scores(policy, samples_of(layers, chosen, with_experts=False))
        assert (others - own).abs().max() > 1e-3


def scores(policy: Policy, samples: Sequence[Sample]) -> tuple[Tensor, int]:
    data = sample_data(samples)
    rows = pack(data, 400, range(len(samples)), policy.kind)
    found = [
        it.scores for it in rows_pass(RowModel(CPU, policy, kind=policy.kind), data, rows, None)
    ]
    return torch.cat(found), len(rows)


def test_a_layer_that_is_computed_again_for_its_gradient_replays_too(tmp_path) -> None:
    for name in ("Qwen3-MoE", "Gemma 4 MoE"):
        policy = loaded(tmp_path / name, name)
        samples = samples_of(len(blocks(policy.model)))
        loss, gradient = passed(policy, samples)
        layers_recompute(policy.model)
        again, recomputed = passed(policy, samples)
        assert again == loss
        assert all(torch.equal(recomputed[key], it) for key, it in gradient.items())


def test_timelines_side_by_side_replay_what_trees_do(tmp_path) -> None:
    policy = loaded(tmp_path, "Qwen3-MoE")
    samples = samples_of(2)
    loss, gradient = passed(policy, samples)
    policy.rows_become(RowKind.PADDED, "so that rows are padded")
    padded, others = passed(policy, samples)
    assert padded == pytest.approx(loss, abs=1e-4)
    for key, it in gradient.items():
        torch.testing.assert_close(others[key], it, rtol=1e-4, atol=1e-4)


def test_rows_of_another_model_are_refused_and_two_bytes_are_read_of_many_experts(tmp_path) -> None:
    policy = loaded(tmp_path, "Qwen3-MoE")
    with pytest.raises(ModelUnsupported, match="3 bytes of experts.*2 layers.*routing_replay"):
        policy.replay.begin(torch.zeros((1, 3), dtype=torch.int16))
    vars(policy.replay)["_layers"] = [300, 300]
    policy.replay.begin(torch.tensor([[44, 1, 7, 0], [-1, -1, -1, -1]], dtype=torch.int16))
    numbers = vars(policy.replay)["_experts_NLk"]
    assert numbers.tolist() == [[[300], [7]], [[-1], [-1]]]
    dense = Policy(nn.Linear(2, 2))
    assert dense.replay.measured(1) == {}
