"""A gap between engine and trainer is told once, when it opens, and only of tokens that prove one."""

import math

import pytest

from gpu_runtime.training.parity import BOUNDS, ParityAlarm
from tinkerscript.wire.events import StepMetrics


def step_of(kl_engine: float, **changes) -> StepMetrics:
    fields = dict.fromkeys(StepMetrics.model_fields, 1)
    return StepMetrics(**(fields | {"kl_engine": kl_engine, "staleness_max": 0, "tokens_trained": 64} | changes))


@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_alarm_rings_when_the_gap_passes_its_bound_and_names_step_gap_and_bound(dtype):
    alarm = ParityAlarm(dtype)
    assert alarm.check(step_of(BOUNDS[dtype] * 0.99, step=1)) is None
    event = alarm.check(step_of(BOUNDS[dtype] * 1.01, step=2))
    assert event["name"] == "engine_mismatch" and event["step"] == 2
    assert event["kl_engine"] > event["bound"] == BOUNDS[dtype]


def test_a_gap_that_stays_is_told_once_and_one_that_comes_back_again():
    alarm = ParityAlarm("float32")
    rings = [alarm.check(step_of(kl)) is not None for kl in (1.0, 1.0, 0.0, 1.0, 1.0)]
    assert rings == [True, False, False, True, False]


def test_a_gap_that_is_no_number_rings():
    assert ParityAlarm("bfloat16").check(step_of(math.nan))


def test_stale_tokens_and_steps_without_tokens_do_not_ring():
    alarm = ParityAlarm("float32")
    assert alarm.check(step_of(1.0, staleness_max=1)) is None
    assert alarm.check(step_of(1.0, tokens_trained=0)) is None
    assert alarm.check(step_of(1.0)) is not None
