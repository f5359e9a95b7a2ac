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
    assert refusal("bfloat16", 0.024, COLD) is None
    assert refusal("bfloat16", 0.026, COLD), "of two tokens one is cold: 1e-2 x (1 + 4) / 2"


def test_one_cold_token_among_many_hides_no_gap():
    coldest = Sample((1, 2), (0, 1), (0.0, -1.0), 1.0, temperatures_T=(1.0, 0.1))
    assert refusal("bfloat16", 0.02, [*SAMPLES * 999, coldest])


def test_stale_tokens_and_steps_without_tokens_prove_nothing():
    assert refusal("float32", 1.0, staleness=1) is None
    assert refusal("float32", 1.0, tokens=0.0) is None
    assert refusal("float32", 1.0)


def test_tokens_of_a_grammar_which_the_measure_leaves_out_tighten_no_bound():
    narrowed = Sample((1, 2), (0, 1), (0.0, -1.0), 1.0, allowed_T=(None, b"set"))
    cold = Sample((1, 2), (0, 1), (0.0, -1.0), 1.0, temperatures_T=(1.0, 0.1))
    assert refusal("bfloat16", 0.5, [*[narrowed] * 19, cold]) is None
