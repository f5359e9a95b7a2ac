"""An option of another trainer is refused with what to do here, and one that only sounds like it
without.
"""

import pytest

from tinkerscript.wire.training.advice import other_ways


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("router_replay", "routing_replay"),
        ("moe_enable_routing_replay", "routing_replay"),
        ("overlong_buffer_len", "overlong_buffer"),
        ("per_token_rewards", "rewards_by_call"),
        ("use_prm", "rewards_by_call"),
        ("expert_demos", "cross_entropy"),
        ("sft_data", "cross_entropy"),
        ("ema", "reference_decay"),
    ],
)
def test_an_option_of_another_trainer_is_answered_with_what_there_is(name: str, named: str) -> None:
    said = other_ways(["seed", name])
    start = f"For {name}: "
    assert said.startswith(start) and named in said.removeprefix(start)


@pytest.mark.parametrize(
    "name",
    [
        "expert_parallel_size",
        "num_experts",
        "swap_space",
        "num_prompts_per_step",
        "updates_per_step",
        "kl_per_token",
        "shuffle_buffer",
        "emails",
        "loss_factor",
        "seed",
    ],
)
def test_an_option_that_only_sounds_like_one_is_given_no_advice(name: str) -> None:
    assert other_ways([name]) == ""
