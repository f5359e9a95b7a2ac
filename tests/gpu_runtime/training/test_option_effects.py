"""Options of the trainer whose effect the other files do not show, seen inside of a rank."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.loop.sample import Sample
from support.rank_probe import (
    changed_options,
    in_a_rank,
    moving_reference,
    observed,
    observed_from_state,
)
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
SAMPLES = [Sample((5, 9, 30, 41, 7), (0, 0, 1, 1, 1), (0.0, 0.0, -4.5, -4.5, -4.5), advantage=1.0)]
RUNS = [{}, {"grad_clip": 1e-3}, {"zero_stage": 1}, {"zero_stage": 3}]
RUNS += [{"lora_rank": 2, "seed": seed} for seed in (1, 1, 2)]
RUNS += [{"zero_stage": stage, "offload_optimizer": True} for stage in (1, 2, 3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def found(model) -> list[dict]:
    return in_a_rank(observed, model, [SessionConfig(**options) for options in RUNS], SAMPLES)


def test_a_gradient_is_clipped_to_the_norm_of_the_session(found):
    assert found[0]["handed_norm"] == pytest.approx(1.0, rel=1e-3)
    assert found[1]["handed_norm"] == pytest.approx(1e-3, rel=1e-3)


def test_a_session_from_the_state_of_another_clips_by_its_own_option(model):
    configs = SessionConfig(grad_clip=1.0), SessionConfig(grad_clip=1e-3)
    found = in_a_rank(observed_from_state, model, *configs, SAMPLES)
    assert found["handed_norm"] == pytest.approx(1e-3, rel=1e-3)


def test_each_stage_shards_what_it_promises(found):
    assert [each["stage"] for each in found[:4]] == [2, 2, 1, 3]
    assert [each["sharded"] for each in found[:4]] == [False, False, False, True]


def test_the_optimizer_is_offloaded_where_the_session_says_so(found):
    assert [each["offloaded"] for each in found] == [False] * 7 + [True] * 3


def test_adapters_begin_with_the_noise_of_the_seed(found):
    first, again, other = ([*each["noise"]] for each in found[4:7])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_moving_reference_follows_the_policy_and_is_saved_with_it(tmp_path):
    """And the log-probabilities before a step are those of the plain model."""
    model = str(tiny_model_make(tmp_path))
    config = SessionConfig(kl_coef=0.1, reference_decay=0.75, learning_rate=1e-3)
    found = in_a_rank(moving_reference, model, config, SAMPLES)
    for base, policy, reference, loaded in zip(
        *(found[k] for k in ("base", "policy", "reference", "loaded")), strict=True
    ):
        torch.testing.assert_close(reference, 0.75 * base + 0.25 * policy)
        assert torch.equal(reference, loaded)
    assert any(
        not torch.equal(a, b) for a, b in zip(found["base"], found["reference"], strict=True)
    )
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    ids = torch.tensor([SAMPLES[0].token_ids_T])
    expected = plain(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    assert found["reference_before"][0] == pytest.approx(found["before"][0], abs=1e-6)
    assert found["before"][0] == pytest.approx([0.0, 0.0, *expected[1:].tolist()], abs=1e-5)


def test_a_step_takes_another_rate_and_another_weight_of_the_kl_term(model):
    config = SessionConfig(kl_coef=0.1, learning_rate=1e-2, warmup_steps=1)
    found = in_a_rank(changed_options, model, config, SAMPLES)
    assert found["rates"] == pytest.approx([5e-3, 3e-4]), "the peak, after its warm-up"
    none, given = found["losses"][None], found["losses"][0.1]
    without, more = found["losses"][0.0], found["losses"][0.5]
    assert none == given and given - without > 1e-5
    assert more - without == pytest.approx(5 * (given - without), rel=1e-3)
