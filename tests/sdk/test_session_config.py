"""A configuration that would not do what it says is refused, by the name of the option."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.defaults import config_resolve, options_decided
from tinkerscript.wire.training.losses import LOSSES as TABLE
from tinkerscript.wire.training.losses import LossName

LOSSES = get_args(LossName)


def refusal(**options) -> tuple[str, str]:
    """The one field that is refused, and why."""
    with pytest.raises(ValidationError) as caught:
        SessionConfig(**options)
    (problem,) = caught.value.errors()
    return problem["loc"][0], problem["msg"]


def test_a_loss_of_a_session_is_one_of_the_table_with_a_way_of_averaging() -> None:
    assert set(LOSSES) == {name for name, loss in TABLE.items() if loss.average}


def rows_of(page: str, title: str) -> dict[str, str]:
    """What the rows ``title of LOSSES`` of the page's table say of each loss."""
    rows = re.findall(rf"^\| {title} of ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    return {name: said for names, said in rows for name in re.findall(r"`(\w+)`", names)}


def test_the_page_has_the_mean_and_the_clip_of_every_loss() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/training.md").read_text()
    means = {
        "episodes": "tokens of an episode, then episodes",
        "constant": "sum / (episodes x `max_tokens`)",
        "tokens": "all tokens of the batch",
    }
    assert rows_of(page, "mean") == {
        name: means[loss.average] for name, loss in TABLE.items() if loss.average
    }
    found = {
        name: tuple(None if each == "none" else float(each) for each in bounds)
        for name, said in rows_of(page, "clip").items()
        for bounds in re.findall(r"^(none|[\d.e-]+) / ([\d.e-]+)", said)
    }
    assert found == {name: loss.clip for name, loss in TABLE.items() if loss.clip}


def test_a_clip_above_the_limit_is_refused_at_once_and_not_when_the_stored_configuration_is_read():
    field, why = refusal(grad_clip=2000.0)
    assert field == "grad_norm_limit" and "below grad_clip" in why
    accepted = SessionConfig(grad_clip=2000.0, grad_norm_limit=3000.0)
    assert SessionConfig(**accepted.model_dump()) == accepted


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_needs_an_end_that_lies_after_the_warm_up(schedule):
    field, why = refusal(lr_schedule=schedule)
    assert field == "lr_schedule" and "max_steps" in why
    field, why = refusal(lr_schedule=schedule, max_steps=5, warmup_steps=5)
    assert field == "lr_schedule" and "warmup_steps (5)" in why
    assert SessionConfig(lr_schedule=schedule, max_steps=5, warmup_steps=4, lr_min_ratio=0.0)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("lr_min_ratio", {"lr_min_ratio": 0.5}),
        (
            "engine_correction",
            {"engine_correction": {"weight": "sequence"}, "loss": "cross_entropy"},
        ),
        ("clip_high", {"clip_high": 0.28}),
        ("clip_low", {"clip_low": 0.1, "loss": "importance_sampling", "epochs": 2}),
        ("clip_high", {"clip_high": 0.28, "loss": "dro", "epochs": 2}),
        ("dual_clip", {"dual_clip": 3.0, "loss": "cispo", "epochs": 2}),
        ("dual_clip", {"dual_clip": 3.0}),
        ("dro_beta", {"dro_beta": 0.1, "epochs": 2}),
        ("dro_beta", {"dro_beta": 0.1, "loss": "dro"}),
        ("kl_stop", {"kl_stop": 0.1}),
        ("kl_estimator", {"kl_estimator": "k2", "kl_coef": 0}),
        ("kl_estimator", {"kl_estimator": "k2", "kl_coef": 0.1, "kl_in": "reward"}),
        ("kl_in", {"kl_in": "reward", "kl_coef": 0}),
        ("reference_decay", {"reference_decay": 0.9, "kl_coef": 0}),
        ("kl_base_coef", {"kl_coef": 0.1, "kl_base_coef": 0.1}),
        (
            "kl_base_coef",
            {"kl_coef": 0.1, "kl_in": "reward", "reference_decay": 0.9, "kl_base_coef": 0.1},
        ),
        ("keep_n", {"keep_n": 4, "advantage_baseline": "batch"}),
        ("keep_n", {"keep_n": 4, "kl_coef": 0.1, "kl_in": "reward"}),
        ("lora_alpha", {"lora_alpha": 16}),
        ("lora_targets", {"lora_targets": "mlp"}),
    ],
)
def test_an_option_without_effect_beside_the_others_is_refused_by_its_name(field, options):
    refused, why = refusal(**options)
    assert refused == field and "has an effect" in why


@pytest.mark.parametrize(
    ("field", "options", "named"),
    [
        ("minibatches", {"minibatches": 5, "tasks_per_batch": 4}, "tasks_per_batch"),
        (
            "engine_correction",
            {"engine_correction": {"weight": "none"}, "max_staleness": 1},
            "max_staleness",
        ),
        ("loss", {"loss": "cross_entropy", "max_staleness": 1}, "max_staleness"),
        (
            "advantage_baseline",
            {"advantage_baseline": "batch", "dynamic_sampling": True},
            "dynamic_sampling",
        ),
        ("lora_rank", {"lora_rank": 4, "kl_coef": 0.1, "reference_decay": 0.9}, "reference_decay"),
        ("keep_n", {"grpo_n": 4, "keep_n": 4}, "grpo_n"),
        ("overlong_buffer", {"overlong_buffer": 300, "max_tokens": 256}, "max_tokens"),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_the_other_named(field, options, named):
    refused, why = refusal(**options)
    assert refused == field and named in why


@pytest.mark.parametrize(
    ("field", "options", "needed"),
    [
        ("clip_high", {"clip_high": 0.28, "loss": "dro"}, {"loss": "dapo", "minibatches": 2}),
        ("dual_clip", {"dual_clip": 3.0, "loss": "cispo"}, {"loss": "ppo", "epochs": 2}),
        ("dro_beta", {"dro_beta": 0.1}, {"loss": "dro", "epochs": 2}),
        (
            "kl_base_coef",
            {"kl_base_coef": 0.1, "kl_coef": 0},
            {"kl_coef": 0.1, "reference_decay": 0.9},
        ),
        (
            "kl_base_coef",
            {"kl_base_coef": 0.1, "kl_coef": 0.1, "lora_rank": 8},
            {"reference_decay": 0.9, "lora_rank": 0},
        ),
        (
            "reference_decay",
            {"reference_decay": 0.9, "lora_rank": 8, "kl_coef": 0},
            {"kl_coef": 0.1, "lora_rank": 0},
        ),
        ("lr_min_ratio", {"lr_min_ratio": 0.5}, {"lr_schedule": "cosine", "max_steps": 9}),
        (
            "keep_n",
            {"keep_n": 8, "advantage_baseline": "batch"},
            {"keep_n": 4, "grpo_n": 8, "advantage_baseline": "group"},
        ),
    ],
)
def test_a_refusal_names_all_that_the_option_needs_and_with_that_it_is_taken(
    field, options, needed
):
    refused, why = refusal(**options)
    assert refused == field
    assert all(name in why for name in needed if name != field and name != "epochs"), why
    SessionConfig(**options | needed)


@pytest.mark.parametrize(
    ("options", "first_cause", "said_at_once"),
    [
        (
            {"kl_in": "reward", "reference_decay": 0.9, "kl_base_coef": 0.1, "kl_coef": 0},
            {"kl_coef": 0.1},
            {"kl_base_coef": "kl_in loss"},
        ),
        (
            {"kl_in": "reward", "kl_estimator": "k2", "keep_n": 4, "kl_coef": 0},
            {"kl_coef": 0.1},
            {"kl_estimator": "kl_in loss", "keep_n": "kl_in loss"},
        ),
        (
            {"advantage_baseline": "batch", "dynamic_sampling": True, "keep_n": 4},
            {"dynamic_sampling": False},
            {"keep_n": "advantage_baseline"},
        ),
        (
            {"reference_decay": 0.9, "kl_coef": 0.1, "lora_rank": 8, "router": "frozen"},
            {"reference_decay": None},
            {"router": "lora_rank 0"},
        ),
    ],
)
def test_what_a_second_refusal_would_say_is_said_beside_the_first(
    options, first_cause, said_at_once
):
    def refusals(given):
        with pytest.raises(ValidationError) as caught:
            SessionConfig(**given)
        return {error["loc"][0]: error["msg"] for error in caught.value.errors()}

    first, second = refusals(options), refusals(options | first_cause)
    assert set(second) <= set(first)
    assert all(words in first[name] for name, words in said_at_once.items())


def test_options_that_belong_together_are_taken():
    SessionConfig(clip_low=0.1, epochs=2, minibatches=4, max_staleness=2, kl_stop=0.02)
    SessionConfig(kl_coef=0.1, kl_estimator="k2", reference_decay=0.99, kl_base_coef=0.01)
    SessionConfig(loss="importance_sampling", engine_correction={"weight_high": 3.0})
    SessionConfig(loss="dapo", clip_high=0.28, epochs=2)
    SessionConfig(loss="dro", dro_beta=0.1, minibatches=2)
    SessionConfig(lora_rank=8, lora_alpha=16, lora_targets="attention")


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_takes_many_updates_and_stale_tokens_without_another_option(loss):
    if loss != "cross_entropy":
        SessionConfig(loss=loss, minibatches=2, max_staleness=1)
    SessionConfig(loss=loss, minibatches=2)


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"weight": "none", "weight_high": 3.0}, "weight_high"),
        ({"weight": "none", "weight_low": 0.5}, "weight_low"),
        ({"mask": "none", "mask_low": 0.5}, "mask_low"),
        ({"mask": "none", "mask_high": 3.0}, "mask_high"),
    ],
)
def test_a_bound_of_a_correction_that_is_off_is_refused_by_its_name(fields, refused):
    with pytest.raises(
        ValidationError, match="has an effect only with a (weight|mask) that is not none"
    ) as caught:
        SessionConfig(engine_correction=fields)
    (problem,) = caught.value.errors()
    assert problem["loc"] == ("engine_correction", refused)


def test_a_mask_without_a_bound_is_refused_with_what_turns_it_off():
    with pytest.raises(ValidationError, match="give one of them, or mask none") as caught:
        SessionConfig(engine_correction={"mask_low": None, "mask_high": None})
    (problem,) = caught.value.errors()
    assert problem["loc"] == ("engine_correction", "mask_high")
    for bounds in ({"mask_low": None}, {"mask_high": None}, {"mask": "none"}):
        SessionConfig(engine_correction=bounds)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_stored_configuration_is_read_back_and_decided_again_whatever_its_loss(loss, epochs):
    config = SessionConfig(loss=loss, epochs=epochs)
    for stored in (config, config_resolve(config, 10**9)):
        read = SessionConfig.model_validate(stored.model_dump(mode="json"))
        assert read == stored
        assert config_resolve(read, 10**9) == config_resolve(config, 10**9)


def test_one_mistake_is_reported_once():
    assert refusal(loss="nope", clip_high=0.28, epochs=2)[0] == "loss"
    assert refusal(lora_rank=-1, lora_alpha=16)[0] == "lora_rank"
    assert refusal(tasks_per_batch=1, minibatches=2, clip_low=0.1)[0] == "minibatches"
    assert refusal(epochs=0, kl_stop=0.01, dual_clip=3.0)[0] == "epochs"
    assert refusal(minibatches=9, loss="dro", dro_beta=0.1)[0] == "minibatches"


@pytest.mark.parametrize(
    ("options", "divides"),
    [
        ({}, True),
        ({"advantage_baseline": "batch"}, True),
        ({"loss": "dr_grpo"}, False),
        ({"advantage_baseline": "leave_one_out"}, False),
        ({"loss": "dr_grpo", "normalize_advantage": True}, True),
        ({"normalize_advantage": False}, False),
    ],
)
def test_advantages_are_divided_as_their_method_was_published(options, divides):
    config = SessionConfig(**options)
    assert config.divides_by_spread is divides
    assert config_resolve(config, None).normalize_advantage is divides


@pytest.mark.parametrize(
    ("options", "parameters", "expected"),
    [
        ({"epochs": 2}, 134_515_008, (2e-5, 0.2, 0.2)),
        ({"epochs": 2, "loss": "gspo"}, 1_500_000_000, (5e-6, 3e-4, 4e-4)),
        ({"epochs": 2, "loss": "dapo"}, 3_000_000_000, (2e-6, 0.2, 0.28)),
        ({"epochs": 2, "loss": "cispo"}, 7_600_000_000, (1e-6, None, 4.0)),
        (
            {"epochs": 2, "loss": "cispo", "clip_low": 0.5, "lora_rank": 8},
            7_600_000_000,
            (1e-5, 0.5, 4.0),
        ),
        ({"loss": "dro"}, 134_515_008, (2e-5, None, None)),
        ({}, None, (None, None, None)),
        ({"learning_rate": 3e-6, "clip_high": 0.3, "epochs": 2}, 134_515_008, (3e-6, 0.2, 0.3)),
    ],
)
def test_what_is_not_given_is_filled_in_by_model_and_loss(options, parameters, expected):
    found = config_resolve(SessionConfig(**options), parameters)
    assert (found.learning_rate, found.clip_low, found.clip_high) == pytest.approx(expected)
    assert SessionConfig(**found.model_dump()) == found


def test_who_copies_a_configuration_leaves_out_what_its_loss_decided() -> None:
    """With another loss the copy has that one's bounds; what a person gave stays."""
    run = config_resolve(SessionConfig(loss="gspo", minibatches=2, clip_high=0.4), None)
    assert (run.clip_low, run.clip_high) == (3e-4, 0.4)
    decided = options_decided(run, None)
    assert decided == ["clip_low", "normalize_advantage"]
    copied = run.model_dump(exclude={*decided})
    other = config_resolve(SessionConfig.model_validate(copied | {"loss": "dr_grpo"}), None)
    assert (other.clip_low, other.clip_high, other.normalize_advantage) == (0.2, 0.4, False)
    again = config_resolve(SessionConfig.model_validate(copied), None)
    assert again == run, "the same loss gives the same"
    assert options_decided(SessionConfig(clip_low=None), None) == []


@pytest.mark.parametrize("options", [{}, {"lora_rank": 8}])
def test_who_copies_a_configuration_for_another_model_leaves_the_rate_of_the_first(options):
    small, large = 134_515_008, 7_600_000_000
    run = config_resolve(SessionConfig(**options), small)
    assert "learning_rate" in options_decided(run, small)
    copied = SessionConfig.model_validate(run.model_dump(exclude={*options_decided(run, small)}))
    assert config_resolve(copied, large) == config_resolve(SessionConfig(**options), large)
    given = config_resolve(SessionConfig(learning_rate=1e-6, **options), small)
    assert "learning_rate" not in options_decided(given, small)
    assert "learning_rate" not in options_decided(run, None), "the size is not known any more"
