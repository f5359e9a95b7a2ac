"""What agents measured themselves stands among the measures of a step."""

import sys

from gpu_runtime.loop.measures import MAX_NAMES, own_means
from tinkerscript.wire.episodes import WorkflowOutput


def test_a_step_has_the_means_of_metrics_parts_of_rewards_and_rewards_by_agent() -> None:
    found = own_means(
        [
            WorkflowOutput(reward=1, metrics={"turns": 2}, reward_parts={"format": 1.0}),
            WorkflowOutput(reward=0, metrics={"turns": 5}, rewards_by_agent={"solver": 0.25}),
            None,
        ]
    )
    assert found == {"turns": 3.5, "reward/format": 1.0, "rewards_by_agent/solver": 0.25}


def test_names_have_a_bound_and_what_json_lacks_is_left_out() -> None:
    many = own_means([WorkflowOutput(reward=1, metrics={f"m{at:03}": 1.0 for at in range(90)})])
    assert list(many) == [f"m{at:03}" for at in range(MAX_NAMES)]
    huge = WorkflowOutput(reward=1, metrics={"huge": sys.float_info.max, "half \ud800\0": 1.0})
    assert own_means([huge, huge]) == {"half \ufffd\u2400": 1.0}
