"""What to do instead: of options that other trainers have and this one has not, by the words in
their names; and in a session some of whose episodes became too old to be trained.
"""

from collections.abc import Iterable

# (words of which one is in the name, what to do). The first that fits is taken. A word that ends
# with _ is a whole one: swap_space is no mean of weights.
WAYS = (
    (
        ("router_replay", "routing_replay", "replay_router"),
        "routing_replay, which is on",
    ),
    (
        ("oversampl", "over_sampl", "num_rollouts", "keep_best"),
        "grpo_n attempts are begun and keep_n of them are trained",
    ),
    (
        ("curriculum", "difficulty", "task_pool", "sampler"),
        "the loop chooses its tasks, by the rewards that it got; dynamic_sampling leaves out groups "
        "that teach nothing",
    ),
    (
        ("replay", "off_policy", "experience_buffer"),
        "max_staleness trains older episodes once, corrected by engine_correction; no episode is "
        "trained twice but by epochs",
    ),
    (
        ("length_norm", "normalize_len", "length_reward", "len_penalty", "length_coef", "overlong"),
        "length_penalty, within a group, or overlong_buffer, before max_tokens",
    ),
    (
        (
            *("token_reward", "token_level_reward", "reward_by_token", "rewards_by_token"),
            *("reward_per_token", "rewards_per_token", "reward_per_step", "rewards_per_step"),
            *("step_reward", "process_reward", "prm_"),
        ),
        "one call for each step of the process, whose rewards are rewards_by_call of the output, "
        "with call_discount",
    ),
    (
        (
            *("loss_f_", "loss_fn", "loss_func", "custom_loss"),
            *("advantage_f", "advantages_f", "custom_adv"),
        ),
        "forward_backward_custom of the tinker client, which runs your function in your process",
    ),
    (
        ("adv_estimator", "advantage_estimator"),
        "advantage_baseline and normalize_advantage",
    ),
    (
        ("demonstration", "expert_d", "expert_traj", "sft_", "demos_"),
        "a trained token is one that the engine sampled: train demonstrations with cross_entropy "
        "of the tinker client first, and give its checkpoint as base_model",
    ),
    (
        ("ema_", "polyak", "swa_"),
        "reference_decay keeps a moving mean for the KL term; average downloaded checkpoints to "
        "evaluate their mean",
    ),
)


def other_ways(names: Iterable[str]) -> str:
    """A sentence for each of ``names`` that other trainers have; empty where none is known."""
    found = {name: way for name in names if (way := _way_of(name))}
    return " ".join(f"For {name}: {way}." for name, way in found.items())


def _way_of(name: str) -> str | None:
    whole = f"_{name.lower()}_"
    return next((way for words, way in WAYS if any(f"_{word}" in whole for word in words)), None)


MAX_STALENESS = 16  # the most that an episode's tokens may be behind, in steps


def stale_advice(max_staleness: int) -> str:
    """The end of a sentence that says why they did."""
    first = "finish the attempts at one task before others begin"
    if max_staleness == 0:
        return f"{first}, or set max_staleness=1"
    if max_staleness < MAX_STALENESS:
        return (
            f"{first}, begin fewer episodes at a time, or raise max_staleness, which is "
            f"{max_staleness}"
        )
    return (
        f"{first}, and begin fewer episodes at a time: max_staleness is {max_staleness}, the "
        "most that there is"
    )
