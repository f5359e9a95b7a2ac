"""Alarms about what a step measured: a gradient far above its clip, answers whose length drifts, an
engine that is off.

Each comes once for a row of steps that show it.
"""

import math
import statistics
from collections.abc import Sequence

from gpu_runtime.episodes.advice.steps import (
    FIRST_STEPS,
    STEPS_UNTIL_ADVICE,
    Event,
    Metrics,
    has_just_lasted,
)

# Times grad_clip, and times the median of the first steps. A small model's gradient is above its
# clip in a healthy run too, and grows as its answers agree and fewer tokens make it: of three runs
# of the quickstart, which learn, it was 7 at the beginning and 12 to 47 at the end, in no three
# steps above 3.2 times the first. A run that collapsed went from 7 to 41.
FAR_ABOVE_CLIP, FAR_ABOVE_FIRST = 10.0, 4.0
DRIFT = 2.0  # times as long as in the first steps, or as short
# Of a step's tokens, more than 1 nat apart: rounding makes none or a few. One alone is left out of
# the loss and is no sign of more, however few a step has.
FAR_TOKENS, ONE_TOKEN = 1e-3, 1.5
USUAL_GAP = 0.1  # nats, of the median token: bfloat16 makes 0.01 to 0.04


def step_alarms(step: int, history: Sequence[Metrics], grad_clip: float) -> list[Event]:
    """Every alarm of ``step``; ``history`` as for ``advice``."""
    last = history[-STEPS_UNTIL_ADVICE - 1 :]
    return (
        gradient_norm(step, history, grad_clip)
        + length_drift(step, history)
        + engine_gap(step, last)
    )


def gradient_norm(step: int, history: Sequence[Metrics], grad_clip: float) -> list[Event]:
    """The event about gradients whose norm is FAR_ABOVE_CLIP, and FAR_ABOVE_FIRST that of the
    first steps.
    """
    last = history[-STEPS_UNTIL_ADVICE - 1 :]
    first = statistics.median(metrics.get("grad_norm") or 0.0 for metrics in history[:FIRST_STEPS])
    far = max(FAR_ABOVE_CLIP * grad_clip, FAR_ABOVE_FIRST * first)
    if not has_just_lasted(last, lambda metrics: (metrics.get("grad_norm") or 0.0) > far):
        return []
    norms = ", ".join(f"{metrics['grad_norm']:.3g}" for metrics in last[-STEPS_UNTIL_ADVICE:])
    reason = (
        f"the gradient's norm was {norms} in the last steps, and {first:.3g} in the first; "
        f"grad_clip is {grad_clip:g}"
    )
    hint = (
        "Lower learning_rate, or take more episodes a step: such a gradient often comes before "
        "a collapse."
    )
    return [{"name": "gradient_norm_high", "step": step, "reason": reason, "hint": hint}]


def length_drift(step: int, history: Sequence[Metrics]) -> list[Event]:
    """The event about answers that are DRIFT times as long or as short as those of the first
    steps.
    """
    began = statistics.fmean(
        metrics.get("completion_length_mean") or 0.0 for metrics in history[:FIRST_STEPS]
    )

    def has_drifted(metrics: Metrics) -> bool:
        now = metrics.get("completion_length_mean") or 0.0
        return metrics["step"] > FIRST_STEPS and not began / DRIFT <= now <= began * DRIFT

    last = history[-STEPS_UNTIL_ADVICE - 1 :]
    if not has_just_lasted(last, has_drifted):
        return []
    now = last[-1]["completion_length_mean"]
    reason = f"answers have {now:.4g} tokens in the mean; those of the first steps had {began:.4g}"
    hint = (
        "Read some: a reward can be met by length alone. overlong_buffer costs long answers a "
        "part of their reward."
    )
    return [{"name": "length_drift", "step": step, "length": now, "reason": reason, "hint": hint}]


def engine_gap(step: int, last: Sequence[Metrics]) -> list[Event]:
    """The event about an engine that is off for more than single tokens: the first step of a row
    that shows it.
    """
    if not _is_off(last[-1]) or any(map(_is_off, last[:-1])):
        return []
    far, usual, masked = (
        last[-1].get(name) or 0.0 for name in ("engine_gap_far", "engine_gap_p50", "tokens_masked")
    )
    reason = (
        f"{far:.2%} of the step's tokens are more than 1 nat apart between engine and trainer, the "
        "median token"
        f" {usual:.2g} nats; {masked:.0f} tokens were left out of the loss"
    )
    hint = (
        "Try dtype float32, or report the model: one of the engine's kernels may be wrong for it."
    )
    return [{"name": "engine_gap", "step": step, "far": far, "reason": reason, "hint": hint}]


def _is_off(metrics: Metrics) -> bool:
    """Of tokens of the current weights: older ones differ by what was learned since."""
    far, usual = metrics.get("engine_gap_far") or 0.0, metrics.get("engine_gap_p50") or 0.0
    least = ONE_TOKEN / (metrics.get("tokens_trained") or math.inf)
    is_off = far > max(FAR_TOKENS, least) or usual > USUAL_GAP
    return not metrics.get("staleness_max") and is_off
