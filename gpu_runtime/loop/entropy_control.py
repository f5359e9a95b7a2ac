"""The weight of the entropy bonus from step to step. No torch in here."""

from tinkerscript.wire.config import SessionConfig

STEP, MOST = 0.005, 1.0  # as TRL 1.16 has them


def next_entropy_coef(coef: float, entropy: float, target: float) -> float:
    """The weight after a step whose policy had ``entropy`` (nats): coef + 0.005 below the target,
    else coef - 0.005.

    Within 0 and 1. Source: He et al. 2025, "Skywork Open Reasoner 1", arXiv:2505.22312, section
    3.2.
    """
    moved = coef + STEP if entropy < target else coef - STEP
    return min(MOST, max(0.0, moved))


def entropy_coef_of(config: SessionConfig, before: dict[str, float] | None) -> float:
    """That of a step, from the metrics of the step ``before``: a resumed run needs nothing but its
    journal.
    """
    if config.entropy_target is None or before is None or before.get("entropy_coef") is None:
        return config.entropy_coef
    return next_entropy_coef(before["entropy_coef"], before["entropy"], config.entropy_target)
