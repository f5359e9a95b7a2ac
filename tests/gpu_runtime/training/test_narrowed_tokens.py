"""Tokens sampled under a grammar: trained over what it allowed, an only choice left out, never an
alarm.
"""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.episodes.batch_export import KeptBatch, batch_lines
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.token_values import UNKNOWN, set_pack, set_size, sets_number, sets_spread
from gpu_runtime.loop.batching import batch_samples
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.losses import token_entropy
from gpu_runtime.training.policy import allowed_alone, token_logprobs
from gpu_runtime.training.rows.tensors import sets_tensor
from support.gateway_harness import make_assignment
from support.rank_probe import gradients, in_a_rank
from support.tiny_model import tiny_model_make
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.reading.batches import BatchSample

CONFIG = SessionConfig(grad_clip=1e9, grad_norm_limit=1e9, kl_coef=0.0)
IDS = (5, 9, 30, 41, 7, 12)
CPU = torch.device("cpu")


def ids_set(*ids: int, vocabulary: int = 98) -> bytes:
    return set_pack(
        sum(1 << token for token in ids).to_bytes((vocabulary + 31) // 32 * 4, "little")
    )


def test_a_set_is_what_was_packed() -> None:
    sets_T = (ids_set(3, 90), None, ids_set(5), ids_set(3, 90), UNKNOWN)
    numbers_T, sets = sets_number(sets_T)
    assert numbers_T == [0, -1, 1, 0, 2] and len(sets) == 3
    assert sets_spread(numbers_T, sets) == sets_T
    assert [set_size(each) for each in sets] == [2, 1, 0]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("allowed", [(0, 1, 2, 3, 4, 5), (1, 2), (3, 4, 5), (4,)])
def test_by_enumeration_a_token_has_the_probability_that_the_grammar_left_it(
    allowed, temperature: float
) -> None:
    """q(v) = p(v) / p(S) for v in S, and 0 elsewhere; the entropy is q's."""
    logits_V = torch.tensor([4.0, 2.0, 1.0, 0.0, -4.0, -6.0], dtype=torch.float64)
    rows = sets_tensor([ids_set(*allowed, vocabulary=6)], CPU)
    bound_KV = allowed_alone(logits_V.expand(6, 6), rows[torch.zeros(6, dtype=torch.long)])
    found = token_logprobs(
        bound_KV, torch.arange(6), torch.full((6,), temperature, dtype=torch.float64)
    ).exp()
    p_V = (logits_V / temperature).softmax(0)
    q_V = torch.zeros(6, dtype=torch.float64)
    q_V[list(allowed)] = p_V[list(allowed)] / p_V[list(allowed)].sum()
    torch.testing.assert_close(found, q_V, rtol=1e-12, atol=0)
    entropy = -(q_V[list(allowed)] * q_V[list(allowed)].log()).sum()
    torch.testing.assert_close(
        token_entropy(bound_KV[:1] / temperature)[0], entropy, rtol=1e-12, atol=1e-12
    )


def test_by_enumeration_the_gradient_is_that_of_the_mean_reward_under_the_grammar() -> None:
    """sum_v q(v) R(v) grad log q(v) = grad sum_v q(v) R(v), with finite differences; log p in its
    place is far off.
    """
    rewards_V, allowed = torch.tensor([0.0, 1.0, 0.3, 0.0], dtype=torch.float64), [1, 2]
    rows = sets_tensor([ids_set(*allowed, vocabulary=4)], CPU)[torch.zeros(1, dtype=torch.long)]
    start_V = torch.tensor([3.0, -1.0, 0.5, 2.0], dtype=torch.float64)

    def mean(logits_V: torch.Tensor) -> torch.Tensor:
        return (allowed_alone(logits_V[None], rows).softmax(1)[0] * rewards_V).sum()

    logits_V = start_V.clone().requires_grad_()
    q_V = allowed_alone(start_V[None], rows).softmax(1)[0]
    logprobs_V = token_logprobs(
        allowed_alone(logits_V.expand(4, 4), rows.expand(4, -1)), torch.arange(4)
    )
    (gradient_V,) = torch.autograd.grad((q_V * rewards_V * logprobs_V).sum(), logits_V)
    steps = 1e-6 * torch.eye(4, dtype=torch.float64)
    expected_V = torch.stack(
        [(mean(start_V + step) - mean(start_V - step)) / 2e-6 for step in steps]
    )
    torch.testing.assert_close(gradient_V, expected_V, rtol=1e-6, atol=1e-9)
    (raw_V,) = torch.autograd.grad((q_V * rewards_V * logits_V.log_softmax(0)).sum(), logits_V)
    assert (raw_V - expected_V).norm() > expected_V.norm()


def test_calls_that_merged_keep_their_own_sets_and_an_only_choice_is_context() -> None:
    two, one = ids_set(5, 6), ids_set(8)
    free = call("a", [1], [2, 3])
    bound = call("b", [1, 2, 3, 4], [5, 8, 9, 7], grammar=True, allowed=(two, one, None, UNKNOWN))
    members = [episode(1, 1.0, free, bound), episode(2, 0.0, call("c", [1], [9]))]
    merged, plain = batch_samples(batch(members), SessionConfig())
    assert merged.mask_T == (0, 1, 1, 0, 1, 0, 1, 0) and plain.allowed_T is None
    assert merged.allowed_T == (None, None, None, None, two, None, None, None)
    assert [logprob == 0.0 for logprob in merged.logprobs_T] == [not mask for mask in merged.mask_T]
    assert merged.weight == 1.0, "an only choice counts in no mean"
    (unrecorded, _) = batch_samples(
        batch([episode(1, 1.0, call("b", [1], [5], grammar=True), free), members[1]]), CONFIG
    )
    assert unrecorded.call_ids == ("a",), "what a grammar bound without a record is not trained"


def test_the_journal_and_the_downloaded_batch_have_the_sets(tmp_path: Path) -> None:
    sets_T = (ids_set(5, 6), None, ids_set(5, 6), ids_set(8))
    bound = dataclasses.replace(
        call("call_b", [1], [5, 2, 6, 8], grammar=True, allowed=sets_T), episode_id="e1"
    )
    journal = Journal(tmp_path / "journal.sqlite3")
    journal.episodes.begin("e1", task="t", eval=False, deadline_at=4e9)
    journal.calls.record(bound)
    (kept,) = journal.calls.of_episode("e1")
    journal.close()
    assert kept.completions == bound.completions and kept.is_narrowed
    made = batch([episode(1, 1.0, kept), episode(2, 0.0, call("call_c", [1], [9]))])
    lines = batch_lines(KeptBatch("1", made, SessionConfig(), "trained"), make_assignment())
    samples = [line for line in map(json.loads, lines) if line["kind"] == "sample"]
    (sample, plain) = map(BatchSample.model_validate, samples)
    assert [sample.allowed_ids(t) for t in range(5)] == [None, [5, 6], None, [5, 6], None]
    assert sample.mask == [0, 1, 1, 1, 0] and sample.policy_versions == [-1, 0, 0, 0, -1]
    assert plain.allowed_sets == [] and plain.allowed_ids(1) is None


@pytest.mark.engine
def test_the_trainer_trains_over_what_the_grammar_allowed_and_raises_no_alarm(
    tmp_path: Path,
) -> None:
    """Against the formula on plain torch. Untrained weights give each of 98 tokens about -4.6."""
    model = str(tiny_model_make(tmp_path))
    allowed_T = (None, None, None, None, ids_set(7, 8, 20), ids_set(3, 12))
    logprobs = (0.0, 0.0, -4.6, -4.6, -1.1, -0.7)  # two free tokens, one among three, one among two
    sample = Sample(
        IDS,
        (0, 0, 1, 1, 1, 1),
        logprobs,
        advantage=1.0,
        temperatures_T=(1.0, 1.0, 0.7, 0.7, 0.7, 0.7),
    )
    bound = dataclasses.replace(sample, allowed_T=allowed_T)
    entropic = CONFIG.model_copy(update={"entropy_coef": 0.1})
    runs = [(CONFIG, [sample]), (CONFIG, [bound]), (entropic, [bound])]
    (alarmed, *_), (metrics, gradient, _), (_, with_entropy, _) = in_a_rank(gradients, model, runs)
    assert alarmed["kl_engine"] > 1, "without the sets a grammar looks like a broken engine"
    assert metrics["kl_engine"] < 0.05, "a mean over the two free tokens"
    assert metrics["tokens_trained"] == 4
    for found, weight in ((gradient, 0.0), (with_entropy, 0.1)):
        expected = _by_hand(Path(model), bound, weight)
        for name, of_parameter in found.items():
            torch.testing.assert_close(of_parameter, expected[name], rtol=1e-3, atol=1e-6, msg=name)


def _by_hand(folder: Path, sample: Sample, entropy_coef: float) -> dict[str, torch.Tensor]:
    """The gradient of GRPO's loss of one sample and its entropy bonus, whole logits at a time."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    logits = model(torch.tensor([sample.token_ids_T])).logits[0, 1:-1] / 0.7
    forbidden = torch.zeros_like(logits, dtype=torch.bool)
    forbidden[2], forbidden[3] = True, True
    forbidden[2, [7, 8, 20]] = False
    forbidden[3, [3, 12]] = False
    distribution = torch.distributions.Categorical(logits=logits.masked_fill(forbidden, -1e9))
    ratio = torch.exp(
        distribution.log_prob(torch.tensor(IDS[2:])) - torch.tensor(sample.logprobs_T[2:])
    )
    loss = (
        -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean()
        - entropy_coef * distribution.entropy().mean()
    )
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}
