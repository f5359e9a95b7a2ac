"""Every option of SessionConfig has a test that sees its effect, not only its acceptance: EFFECTS
names it.

The effects that no other file shows are shown here.
"""

import ast
import time
from pathlib import Path

import pytest

from gpu_runtime.loop.batching import samples_with_signal
from support.gateway_harness import running_gateway
from support.runtime_harness import plane_assign
from support.trained_batches import batch, call, episode
from support.waiting import FakeClock, eventually
from tinkerscript.wire.config import SessionConfig

TESTS = Path(__file__).resolve().parents[1]
HERE = "gpu_runtime/test_option_effects.py"
GATEWAY, LOOP, TRAINING = "gpu_runtime/gateway", "gpu_runtime/loop", "gpu_runtime/training"
INSIDE = f"{TRAINING}/test_option_effects.py"
OPTIMIZER = (
    f"{TRAINING}/test_optimizer.py",
    "test_a_step_is_that_of_adamw_with_the_sessions_options",
)
SCHEDULE = (
    f"{TRAINING}/test_optimizer.py",
    "test_a_cosine_rate_is_at_its_middle_halfway_and_begins_after_the_warm_up",
)
LOSSES = f"{TRAINING}/test_losses.py", "test_loss_equals_the_plain_formula"
GRADIENTS = f"{TRAINING}/test_gradients.py", "test_loss_and_gradient_equal_the_plain_computation"
ADAPTERS = (
    f"{TRAINING}/test_lora.py",
    "test_targets_change_by_a_matrix_of_the_rank_and_nothing_else_changes",
)
BATCHES = f"{GATEWAY}/test_episodes.py", "test_batch_is_exact_journaled_and_reported"
CALLS = HERE, "test_calls_take_what_they_do_not_say_from_the_session"

LEVEL, UPDATES = "gpu_runtime/test_level_groups.py", "gpu_runtime/test_updates.py"
PARTS = UPDATES, "test_every_epoch_takes_every_group_whole_and_once_in_an_order_of_its_own"

EFFECTS = {
    "seed": (INSIDE, "test_adapters_begin_with_the_noise_of_the_seed"),
    "grpo_n": BATCHES,
    "tasks_per_batch": BATCHES,
    "max_steps": (
        f"{GATEWAY}/test_episodes.py",
        "test_training_ends_at_max_steps_and_episodes_are_still_served",
    ),
    "max_staleness": (
        f"{GATEWAY}/test_episodes.py",
        "test_surplus_within_the_staleness_window_is_trained",
    ),
    "learning_rate": (
        f"{TRAINING}/test_optimizer.py",
        "test_a_constant_rate_warms_up_in_a_line_and_stays",
    ),
    "warmup_steps": SCHEDULE,
    "lr_schedule": SCHEDULE,
    "lr_min_ratio": SCHEDULE,
    "adam_beta1": OPTIMIZER,
    "adam_beta2": OPTIMIZER,
    "adam_eps": OPTIMIZER,
    "weight_decay": OPTIMIZER,
    "grad_clip": (INSIDE, "test_a_gradient_is_clipped_to_the_norm_of_the_session"),
    "grad_norm_limit": (
        f"{TRAINING}/test_refused_steps.py",
        "test_refused_steps_leave_no_trace_in_any_bit",
    ),
    "loss": GRADIENTS,
    "dynamic_sampling": (
        LEVEL,
        "test_dynamic_sampling_puts_another_group_in_the_place_of_a_level_one",
    ),
    "group_timeout_s": (LEVEL, "test_a_partial_group_is_trained_once_it_has_waited_too_long"),
    "minibatches": PARTS,
    "epochs": PARTS,
    "kl_stop": (UPDATES, "test_the_updates_end_once_the_policy_has_moved_too_far"),
    "engine_correction": (
        f"{TRAINING}/test_engine_correction.py",
        "test_a_weight_is_the_ratio_of_its_level_within_its_bounds",
    ),
    "clip_low": LOSSES,
    "clip_high": LOSSES,
    "dual_clip": LOSSES,
    "dro_beta": LOSSES,
    "kl_coef": GRADIENTS,
    "kl_in": (LEVEL, "test_a_kl_term_in_the_reward_is_taken_from_it_once_and_exported"),
    "kl_estimator": GRADIENTS,
    "reference_decay": (INSIDE, "test_a_moving_reference_follows_the_policy_and_is_saved_with_it"),
    "kl_base_coef": GRADIENTS,
    "entropy_coef": GRADIENTS,
    "entropy_target": (
        LEVEL,
        "test_an_adaptive_weight_of_entropy_goes_on_where_it_was_after_a_restart",
    ),
    "mask_truncated": (
        f"{LOOP}/test_batching.py",
        "test_answers_that_were_cut_off_are_context_alone",
    ),
    "train_calls_without_tools": (
        f"{LOOP}/test_batching.py",
        "test_calls_without_tools_are_left_out_on_request",
    ),
    "overlong_buffer": (
        f"{LOOP}/test_batching.py",
        "test_long_answers_cost_a_part_of_the_reward",
    ),
    "keep_n": (
        f"{LOOP}/test_group_shaping.py",
        "test_of_a_group_those_are_trained_whose_rewards_differ_most",
    ),
    "length_penalty": (
        f"{LOOP}/test_group_shaping.py",
        "test_of_two_successes_the_shorter_has_the_higher_advantage",
    ),
    "normalize_advantage": (HERE, "test_advantages_are_divided_by_their_spread_or_not"),
    "advantage_baseline": (
        f"{LOOP}/test_batching.py",
        "test_each_baseline_compares_with_its_own_pool",
    ),
    "call_discount": (
        f"{LOOP}/test_batching.py",
        "test_a_discount_credits_a_call_with_what_came_after_it",
    ),
    "logprobs_after_step": (
        f"{TRAINING}/test_logprobs_after_step.py",
        "test_weights_are_the_same_bits_with_log_probabilities_after_each_step_and_without",
    ),
    "max_context_length": (HERE, "test_a_call_longer_than_the_session_allows_is_refused"),
    "max_tokens": CALLS,
    "temperature": CALLS,
    "unsupported_sampling": (
        f"{GATEWAY}/test_unsupported_sampling.py",
        "test_an_episode_that_cannot_be_trained_is_evaluated_and_says_so",
    ),
    "text_marks": (
        f"{GATEWAY}/test_text_marks.py",
        "test_a_session_may_ask_for_marks_in_texts",
    ),
    "tool_parsing": (
        f"{GATEWAY}/test_tool_parsing.py",
        "test_slips_of_calls_are_text_in_a_strict_session",
    ),
    "unsupported_effort": (
        f"{GATEWAY}/test_template_options.py",
        "test_an_effort_that_the_template_has_not_is_a_label_or_refused",
    ),
    "model_names": (
        f"{GATEWAY}/test_model_names.py",
        "test_any_name_is_the_sessions_model_and_labels_its_calls",
    ),
    "lora_rank": ADAPTERS,
    "lora_alpha": (
        f"{TRAINING}/test_gradients.py",
        "test_an_adapter_begins_with_the_gradient_that_the_chain_rule_gives_it",
    ),
    "lora_targets": ADAPTERS,
    "router": (
        f"{TRAINING}/test_mixtures.py",
        "test_a_frozen_router_stays_as_the_base_has_it_and_all_else_is_trained",
    ),
    "routing_replay": (
        "gpu_runtime/engine/test_recording.py",
        "test_a_mixtures_engine_records_unless_the_session_turns_it_off",
    ),
    "zero_stage": (INSIDE, "test_each_stage_shards_what_it_promises"),
    "offload_optimizer": (INSIDE, "test_the_optimizer_is_offloaded_where_the_session_says_so"),
    "trainer_ranks": (f"{TRAINING}/test_ranks.py", "test_ranks_listen_on_this_machine_alone"),
    "nodes": (
        "gpu_runtime/cluster/test_ray_ranks.py",
        "test_ranks_on_two_nodes_take_the_steps_of_two_on_one_and_go_on_from_their_state",
    ),
    "place": (
        "console/test_places.py",
        "test_each_place_runs_its_own_sessions_up_to_its_own_number",
    ),
    "sequence_parallel": (
        f"{TRAINING}/test_sequence_parallel.py",
        "test_ranks_that_share_rows_take_the_step_of_one_rank",
    ),
    "devices": ("console/test_devices.py", "test_devices_are_disjoint_and_as_many_as_asked_for"),
    "placement": ("gpu_runtime/test_placement.py", "test_shared_parts_are_on_the_same_devices"),
    "dtype": (
        f"{TRAINING}/test_offload_and_bfloat16.py",
        "test_bfloat16_takes_the_steps_of_float32_to_its_rounding_and_resumes_to_the_same_bits",
    ),
    "micro_batch_tokens": (
        f"{TRAINING}/test_gradients.py",
        "test_small_rows_and_checkpointing_change_the_cost_and_not_the_gradient",
    ),
    "gradient_checkpointing": (
        f"{TRAINING}/test_gradient_checkpointing.py",
        "test_layers_are_computed_twice_and_less_is_saved_and_the_step_is_the_same",
    ),
    "offload_activations": (
        f"{TRAINING}/test_gradient_checkpointing.py",
        "test_what_layers_save_is_kept_on_the_host_and_the_step_is_the_same",
    ),
    "checkpoint_every_steps": (
        "gpu_runtime/test_learner.py",
        "test_a_state_is_saved_every_so_many_steps_and_two_are_kept_here",
    ),
    "journal_interval_s": (HERE, "test_the_journal_is_copied_every_so_many_seconds"),
    "episode_idle_timeout_s": (
        f"{GATEWAY}/test_episodes.py",
        "test_idle_episode_expires_and_a_heartbeat_keeps_it",
    ),
    "episode_timeout_s": (HERE, "test_an_episode_ends_at_the_sessions_deadline"),
    "idle_suspend_s": (
        "console/test_reconcile.py",
        "test_an_idle_session_is_suspended_and_woken_by_a_request",
    ),
}


@pytest.mark.smoke
def test_every_option_names_a_test_of_its_effect_that_exists() -> None:
    assert EFFECTS.keys() == SessionConfig.model_fields.keys(), (
        "a new option needs a test that sees its effect"
    )
    missing = {
        option: name
        for option, (file, name) in EFFECTS.items()
        if name not in functions_of((TESTS / file).read_text())
    }
    assert not missing


def functions_of(source: str) -> set[str]:
    return {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


async def test_calls_take_what_they_do_not_say_from_the_session(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_tokens=11, temperature=0.75) as gateway:
        begun = await gateway.begin()
        await gateway.chat(begun)
        await gateway.chat(begun, max_tokens=5, temperature=1.0)
        asked = [
            (each.options.max_tokens, each.options.temperature) for each in gateway.engine.requests
        ]
    assert asked == [(11, 0.75), (5, 1.0)]


async def test_a_call_longer_than_the_session_allows_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_context_length=64) as gateway:
        begun = await gateway.begin()
        refused = await gateway.raw_chat(
            begun["api_key"], messages=[{"role": "user", "content": "x " * 60}]
        )
    assert refused.status_code == 400 and "64" in refused.json()["error"]["message"]


async def test_an_episode_ends_at_the_sessions_deadline(tmp_path: Path) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(
        tmp_path, now=clock, episode_timeout_s=50, episode_idle_timeout_s=500
    ) as gateway:
        begun = await gateway.begin()
        clock.now += 49
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
        clock.now += 2
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 410


async def test_an_idle_timeout_above_the_sessions_deadline_is_that_of_episodes_with_a_longer_one(
    tmp_path: Path,
) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(
        tmp_path, now=clock, episode_timeout_s=50, episode_idle_timeout_s=100
    ) as gateway:
        plain, longer = await gateway.begin(), await gateway.begin(timeout_s=1000)
        clock.now += 60
        assert (await gateway.raw_chat(plain["api_key"])).status_code == 410
        assert (await gateway.raw_chat(longer["api_key"])).status_code == 200
        clock.now += 101
        assert (await gateway.raw_chat(longer["api_key"])).status_code == 410
        await eventually(lambda: gateway.journal.episodes.get(longer["episode_id"]).reason)
        records = [gateway.journal.episodes.get(each["episode_id"]) for each in (plain, longer)]
        assert [record.reason for record in records] == ["deadline", "idle"]


async def test_the_journal_is_copied_every_so_many_seconds(plane, runtime, model) -> None:
    plane_assign(plane, model, max_staleness=0, journal_interval_s=1)
    async with runtime(plane) as it:
        await it.play("a", 1.0)
        await eventually(lambda: "None/journal-copy.sqlite3" in plane.objects)
        await it.end()


@pytest.mark.parametrize(("normalize", "expected"), [(True, [1.0, -1.0]), (False, [0.25, -0.25])])
def test_advantages_are_divided_by_their_spread_or_not(
    normalize: bool, expected: list[float]
) -> None:
    group = [episode(n, reward, call(f"c{n}", [1], [2])) for n, reward in enumerate((0.75, 0.25))]
    samples = samples_with_signal(batch(group), SessionConfig(normalize_advantage=normalize))
    assert [sample.advantage for sample in samples] == pytest.approx(expected, abs=1e-4)
