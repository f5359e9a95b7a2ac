"""A row's scores and its loss, with a model of one table in the place of a language model."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from gpu_runtime.journal.token_values import set_pack
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import Datum
from gpu_runtime.training.losses import kl_estimate
from gpu_runtime.training.objective.row_loss import STATISTICS, LoopInputs, row_loss
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import TARGETS

CPU = torch.device("cpu")
VOCABULARY, WIDTH = 8, 5
IDS = (3, 1, 6, 2)


class Embedding(nn.Module):
    """A decoder whose hidden states depend on the token alone."""

    def __init__(self, draw: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(VOCABULARY, WIDTH, generator=draw))

    def forward(self, input_ids, **_):
        return SimpleNamespace(last_hidden_state=self.weight[input_ids])


class Table(nn.Module):
    """What follows a token depends on that token alone; ``after_head`` is done to its logits."""

    def __init__(self, after_head=lambda logits: logits) -> None:
        super().__init__()
        self.config = SimpleNamespace()
        self.config.get_text_config = lambda: self.config
        draw = torch.Generator().manual_seed(5)
        self.model = Embedding(draw)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = nn.Parameter(torch.randn(VOCABULARY, WIDTH, generator=draw))
        self.after_head = after_head

    def get_decoder(self):
        return self.model

    def forward(self, input_ids, **options):
        hidden = self.model(input_ids=input_ids, **options).last_hidden_state
        return SimpleNamespace(logits=self.after_head(self.head(hidden)))


def row_of(**sampled) -> RowTensors:
    sample = Sample(IDS, (0, 1, 1, 1), (0.0, -1.0, -2.0, -0.5), 0.7, 1.0, 0, **sampled)
    data = sample_data([sample], [0.25])
    return RowTensors.of(pack_row(data, [0]), data, CPU)


@pytest.mark.parametrize(
    "changed",
    [
        lambda logits: logits,
        lambda logits: logits / 4,  # Granite
        lambda logits: 2 * torch.tanh(logits / 2),  # Gemma
    ],
)
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("allowed", [None, (1, 4, 7)])
def test_a_target_is_scored_under_the_distribution_that_it_was_sampled_from(
    changed, temperature, allowed
) -> None:
    policy = Policy(Table(changed))
    bound = (
        None
        if allowed is None
        else set_pack(sum(1 << token for token in allowed).to_bytes(4, "little"))
    )
    row = row_of(temperatures_T=(1.0, *[temperature] * 3), allowed_T=(None, bound, None, None))
    logits_KV = (
        changed(policy.model.model.weight[list(IDS[:-1])] @ policy.model.head.weight.T)
        / temperature
    )
    if allowed is not None:
        logits_KV = logits_KV.clone()
        logits_KV[0, [token for token in range(VOCABULARY) if token not in allowed]] = -torch.inf
    wanted_KV = logits_KV.log_softmax(dim=1)
    entropy_K = -(wanted_KV.exp() * wanted_KV.nan_to_num(neginf=0.0)).sum(dim=1)
    scores, entropies = policy(row, with_entropy=True)
    torch.testing.assert_close(scores, wanted_KV[range(3), IDS[1:]], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(entropies, entropy_K, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(policy(row), scores)


@pytest.mark.parametrize(
    ("others", "places"), [((3, 1, 7), [0, 0, 1, 1]), ((5, 4, 7), None)], ids=["forks", "apart"]
)
def test_a_nodes_logits_are_read_again_only_where_it_has_several_targets(others, places) -> None:
    policy, sequences = Policy(Table()), (IDS[:3], others)
    data = [Datum(np.array(ids[:-1]), {TARGETS: np.array(ids[1:])}) for ids in sequences]
    row = RowTensors.of(pack_row(data, [0, 1]), data, CPU)
    assert row.place_K is None if places is None else row.place_K.tolist() == places
    scores_K = policy(row)
    for number, ids in enumerate(sequences):
        logits_KV = policy.model.model.weight[list(ids[:-1])] @ policy.model.head.weight.T
        wanted_K = logits_KV.log_softmax(dim=1)[range(2), list(ids[1:])]
        torch.testing.assert_close(scores_K[row.datum_K == number], wanted_K)


def test_a_rows_loss_is_the_weighted_sum_of_its_parts() -> None:
    config = SessionConfig(
        loss="grpo", kl_coef=0.3, kl_base_coef=0.2, reference_decay=0.9, entropy_coef=0.1
    )  # fmt: skip
    row = row_of()
    logprobs_K, entropy_K = torch.tensor([-1.2, -1.5, -0.4]), torch.tensor([0.9, 0.3, 0.5])
    reference_K, base_K = torch.tensor([-1.0, -2.5, -0.1]), torch.tensor([-0.3, -1.0, -2.0])
    scores = torch.stack([logprobs_K, entropy_K])
    plain, stats = row_loss(config, LoopInputs.of(row), logprobs_K)
    loss, with_reference = row_loss(
        config, LoopInputs.of(row, reference_K=reference_K, base_K=base_K), scores
    )  # fmt: skip
    terms_K = 0.3 * kl_estimate(config.kl_estimator, logprobs_K, reference_K)
    terms_K = terms_K + 0.2 * kl_estimate(config.kl_estimator, logprobs_K, base_K) - 0.1 * entropy_K
    torch.testing.assert_close(loss - plain, 0.25 * terms_K.sum())
    ratio_K = torch.exp(logprobs_K - torch.tensor([-1.0, -2.0, -0.5]))
    torch.testing.assert_close(plain, -0.25 * 0.7 * ratio_K.clamp(max=2.0).sum())
    told = dict(zip(STATISTICS, stats.tolist(), strict=True))
    gap_K = ratio_K - 1 - ratio_K.log()  # k3, on tokens that the engine sampled
    assert told["kl_engine"] == pytest.approx(gap_K.sum().item(), rel=1e-5)
    assert told["tokens_trained"] == told["tokens_free"] == 3.0 and told["tokens_masked"] == 0.0
    apart_K = reference_K - logprobs_K
    assert told["kl_reference"] == 0.0 and with_reference[
        STATISTICS.index("kl_reference")
    ] == pytest.approx((apart_K.exp() - 1 - apart_K).sum().item(), rel=1e-5)


def test_tokens_of_a_grammar_are_in_the_loss_and_not_in_the_gap_to_the_engine() -> None:
    bound = set_pack((1 << 1 | 1 << 4).to_bytes(4, "little"))
    logprobs_K = torch.tensor([-0.2, -1.5, -0.4])
    (plain, _), (loss, stats) = (
        row_loss(SessionConfig(loss="grpo"), LoopInputs.of(row), logprobs_K)
        for row in (row_of(), row_of(allowed_T=(None, bound, None, None)))
    )
    told = dict(zip(STATISTICS, stats.tolist(), strict=True))
    gap_K = torch.tensor([0.5, 0.1])  # of the two tokens behind it: trainer - engine
    assert told["kl_engine"] == pytest.approx((gap_K.expm1() - gap_K).sum().item(), rel=1e-5)
    assert (told["tokens_free"], told["tokens_trained"]) == (2.0, 3.0)
    torch.testing.assert_close(loss, plain)
