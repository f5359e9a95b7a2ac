"""A gap between engine and trainer refuses a step, on tokens that prove one and beyond what rounding explains."""

import pytest

from gpu_runtime.interfaces import Sample
from gpu_runtime.training.logprob_mismatch import BOUNDS, LogprobMismatchMonitor

SAMPLES = [Sample((1, 2), (0, 1), (0.0, -1.0), 1.0)]
COLD = [*SAMPLES, Sample((1, 2), (0, 1), (0.0, -1.0), 1.0, temperatures_T=(1.0, 0.5))]


def refusal(dtype: str, kl_engine: float, samples=SAMPLES, staleness=0, tokens=64.0) -> str | None:
    metrics = {"kl_engine": kl_engine, "tokens_trained": tokens}
    return LogprobMismatchMonitor(dtype).refusal(metrics, samples, staleness)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_gap_beyond_the_bound_is_refused_with_both_numbers(dtype):
    assert refusal(dtype, BOUNDS[dtype] * 0.99) is None
    found = refusal(dtype, BOUNDS[dtype] * 1.01)
    assert f"{BOUNDS[dtype] * 1.01:.2g}" in found and f"explains {BOUNDS[dtype]:g}" in found


def test_rounding_counts_for_more_at_a_low_temperature():
    assert refusal("bfloat16", 0.03, COLD) is None
    assert refusal("bfloat16", 0.05, COLD)


def test_stale_tokens_and_steps_without_tokens_prove_nothing():
    assert refusal("float32", 1.0, staleness=1) is None
    assert refusal("float32", 1.0, tokens=0.0) is None
    assert refusal("float32", 1.0)
