"""What the runner of recipes takes for a pass: the checks of metrics that it reads from a recipe's
log folder.
"""

import json
from pathlib import Path

import pytest
from recipes.run import RECIPES, metrics_check, rise_check


def written(log: Path, *lines: dict[str, float]) -> Path:
    (log / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


def test_metrics_of_every_step_that_are_finite_pass(tmp_path: Path) -> None:
    assert (
        metrics_check(written(tmp_path, {"step": 0, "loss": 1.5}, {"step": 1, "loss": 1.0}), 2)
        == ""
    )


def test_no_metrics_a_missing_step_and_a_mean_over_nothing_fail(tmp_path: Path) -> None:
    assert "no metrics" in metrics_check(tmp_path, 1)
    assert "1 steps" in metrics_check(written(tmp_path, {"step": 0}), 2)
    assert "nll is nan at step 0" in metrics_check(
        written(tmp_path, {"step": 0, "nll": float("nan")}), 1
    )


@pytest.mark.parametrize(
    ("rewards", "rose"), [((0.0, 0.1, 0.9), True), ((0.4, 0.9, 0.4), False), ((0.1, 0.9), False)]
)
def test_a_metric_that_must_rise_is_higher_at_the_end_than_at_the_start(
    tmp_path: Path, rewards: tuple[float, ...], rose: bool
) -> None:
    log = written(
        tmp_path, *({"step": step, "reward": reward} for step, reward in enumerate(rewards))
    )
    assert (rise_check(log, "reward") == "") == rose


def test_a_metric_that_was_not_written_has_not_risen(tmp_path: Path) -> None:
    assert "has 0 values" in rise_check(tmp_path, "reward")


@pytest.mark.system
def test_a_recipe_whose_metric_must_rise_has_steps_enough_for_a_mean() -> None:
    assert all(recipe.steps >= 6 for recipe in RECIPES.values() if recipe.rises)
    assert any(recipe.rises for recipe in RECIPES.values())
