"""Models whose layers share no prefixes: which they are, what their rows are, and that no row
changes another.
"""

import json
import random
from dataclasses import replace

import pytest
import torch
from deepspeed.utils import z3_leaf_module

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import RowKind, pack, pack_row, tokens_repeated
from gpu_runtime.training.rows.tensors import RowTensors
from gpu_runtime.training.sharding.loading import layers_gather_whole
from support.family_checks import drawn_samples, family_gaps
from support.model_families import PLAIN, TRAINED, WINDOW, family_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal, prefixes_words
from tinkerscript.wire.training.prefixes import prefixes_apart

CPU = torch.device("cpu")
CONFIG = SessionConfig(max_context_length=128)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (
            {"layer_types": ["linear_attention", "full_attention"]},
            "layer_types has linear_attention",
        ),
        ({"layer_types": ["conv", "full_attention"]}, "conv"),
        ({"layer_types": ["mamba", "attention"]}, "mamba"),
        ({"layer_types": ["chunked_attention"]}, "chunked_attention"),
        ({"layer_types": ["not_known_yet"]}, "not_known_yet"),
        ({"mamba_d_state": 16}, "state space"),
        ({"hybrid_override_pattern": "M-*-"}, "state space"),
        ({"attention_chunk_size": 16}, "chunks"),
        ({"use_bidirectional_attention": True}, "later tokens"),
        ({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}, None),
        ({"attention_chunk_size": None, "use_bidirectional_attention": False}, None),
        ({"hidden_size": 64}, None),
    ],
)
def test_layers_that_a_tree_cannot_compute_share_no_prefixes(fields, named) -> None:
    why = prefixes_apart(fields)
    assert why is None if named is None else named in why


@pytest.mark.parametrize("name", ["Llama", "Gemma 3", "Qwen3.5", "Bloom"])
def test_the_trainer_takes_the_rows_that_the_architecture_has(tmp_path, name) -> None:
    policy = Policy.load(str(family_make(tmp_path, name)), torch.float32)
    policy_verify(policy, CONFIG, CPU)
    assert (policy.kind is RowKind.TREES) == (name in TRAINED) == (not policy.apart)


def drawn(*lengths: int) -> list[Sample]:
    rng = random.Random(7)
    shared = [rng.randrange(2, 98) for _ in range(max(lengths))]
    samples = []
    for length in lengths:
        ids = (*shared[: length - 2], rng.randrange(2, 98), rng.randrange(2, 98))
        samples.append(Sample(ids, (0,) * (length - 2) + (1, 1), (0.0,) * length, 1.0))
    return samples


def test_rows_hold_whole_timelines_of_like_length_and_padding_counts() -> None:
    data = sample_data(drawn(41, 11, 40, 9, 36, 20))
    rows = pack(data, 130, range(6), RowKind.PADDED)
    assert rows == [[3, 1], [5], [4, 2, 0]], (
        "39 and 40 tokens beside 35; 19 are fewer than three quarters of 35"
    )
    assert pack(data, 119, range(6), RowKind.PADDED) == [[3, 1], [5], [4, 2], [0]], (
        "120 with the padding"
    )
    assert pack(data, 130, range(6), RowKind.SINGLE) == [[3], [1], [5], [4], [2], [0]]
    row = pack_row(data, [4, 2, 0], RowKind.PADDED)
    assert len(row.tokens_N) == 35 + 39 + 40
    assert tokens_repeated(data, 999, range(6), RowKind.PADDED) == 35 + 39 + 40 + 19 + 10 + 8 - (
        40 + 5
    )
    assert tokens_repeated(data, 999, range(6), RowKind.TREES) == 0
    timelines = RowTensors.of(row, data, CPU).visible
    assert timelines.ids_BL.shape == (3, 40)
    for line, index in zip(timelines.ids_BL, (4, 2, 0), strict=True):
        tokens = torch.from_numpy(data[index].token_ids_N)
        assert torch.equal(line[: len(tokens)], tokens) and not line[len(tokens) :].any()
    assert torch.equal(
        timelines.ids_BL.flatten()[timelines.place_N], torch.from_numpy(row.tokens_N)
    )


@pytest.mark.parametrize("name", ["Qwen3.5", "LFM2"])
def test_the_gradient_of_two_rows_is_that_of_each_alone(tmp_path, name) -> None:
    """Side by side with another length: no state and no convolution goes from one into the
    other.
    """
    policy = Policy.load(str(family_make(tmp_path, name)), torch.float32)
    data = sample_data(drawn(24, 19))

    def gradient(rows: list[list[int]]) -> torch.Tensor:
        policy.zero_grad()
        for indices in rows:
            policy(
                RowTensors.of(pack_row(data, indices, RowKind.PADDED), data, CPU)
            ).sum().backward()
        return torch.cat([weight.grad.flatten() for weight in policy.parameters()])

    together, alone = gradient([[0, 1]]), gradient([[0], [1]])
    assert (together - alone).norm() < 1e-5 * alone.norm()


def test_layers_that_read_weights_of_modules_they_do_not_call_are_put_together_whole(
    tmp_path,
) -> None:
    """As ZeRO 3 does for the modules that it is told are leaves: else a convolution's weight has no
    elements.
    """
    policy = Policy.load(str(family_make(tmp_path, "LFM2")), torch.float32)
    layers_gather_whole(policy)
    layers = policy.model.get_decoder().layers
    assert all(map(z3_leaf_module, layers)) and not z3_leaf_module(policy.model.get_decoder())


@pytest.mark.system
@pytest.mark.parametrize("name", PLAIN)
def test_log_probabilities_and_gradient_are_those_of_the_models_own_forward(tmp_path, name) -> None:
    folder = family_make(tmp_path, name)
    assert folder_refusal(folder, CONFIG) is None
    samples = drawn_samples(2 * WINDOW, WINDOW)
    first = samples[0]
    samples[0] = replace(
        first,
        token_ids_T=first.token_ids_T[5:],
        mask_T=first.mask_T[5:],
        logprobs_T=first.logprobs_T[5:],
    )
    gap, gradient_gap = family_gaps(folder, samples, CONFIG, CPU)
    assert gap < 1e-4
    assert gradient_gap < 1e-4


def mixing(forward, *, over_batch: bool):
    """A decoder in which each token sees the mean of its own sequence, or of all that are computed
    beside it.
    """

    def changed(**inputs):
        out = forward(**inputs)
        hidden = out.last_hidden_state
        out.last_hidden_state = hidden + hidden.mean(dim=(0, 1) if over_batch else 1, keepdim=True)
        return out

    return changed


def test_what_is_wrong_over_trees_is_computed_whole_and_what_padding_changes_one_by_one(
    tmp_path,
) -> None:
    policy = Policy.load(str(family_make(tmp_path, "Llama")), torch.float32)
    decoder = policy.model.get_decoder()
    decoder.forward = mixing(decoder.forward, over_batch=True)
    policy_verify(policy, CONFIG, CPU)
    assert policy.kind is RowKind.SINGLE
    assert (
        "over trees its log-probabilities are" in policy.apart
        and "nats from its own" in policy.apart
    )


def test_a_model_that_is_computed_wrong_in_each_way_is_refused_with_the_gap(
    tmp_path, monkeypatch
) -> None:
    policy = Policy.load(str(family_make(tmp_path, "Granite")), torch.float32)
    monkeypatch.setattr(
        policy, "_scores", lambda hidden, row, _: hidden.new_zeros(len(row.target_K))
    )
    with pytest.raises(ModelUnsupported, match=r"GraniteForCausalLM.*nats.*logits_scaling=8.0"):
        policy_verify(policy, CONFIG, CPU)


def test_an_option_that_such_a_model_cannot_have_is_refused_by_name(tmp_path) -> None:
    folder = family_make(tmp_path, "LFM2")
    assert folder_refusal(folder, CONFIG) is None
    shared = SessionConfig(max_context_length=128, sequence_parallel=True, trainer_ranks=2)
    assert "sequence_parallel is on, and layer_types has conv" in (
        folder_refusal(folder, shared) or ""
    )
    with pytest.raises(ModelUnsupported, match="sequence_parallel"):
        Policy(torch.nn.Identity(), shares_rows=True, apart="layers that no field names")


def test_the_words_of_a_plan_name_the_layers_and_the_cost(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"layer_types": ["conv"]}}))
    words = prefixes_words(tmp_path, 6) or ""
    assert "Prefixes are not shared (layer_types has conv)" in words and "6 times" in words
    assert "for each of them" in (prefixes_words(tmp_path, None) or "")
    (tmp_path / "config.json").write_text("{}")
    assert prefixes_words(tmp_path, 6) is None
