"""AdamW that refuses a step that would break the weights, and the learning rate as a function of the step."""

import torch
import torch.distributed as dist

from tinkerscript.wire.config import SessionConfig


def learning_rate(config: SessionConfig, step: int) -> float:
    """lr(step) = peak * min(1, step / (warmup + 1)): linear warm-up, then constant. ``step`` is 1-based.

    A pure function of the step, so that a resumed run needs no scheduler state.
    """
    return config.learning_rate * min(1.0, step / (config.warmup_steps + 1))


class GuardedAdamW(torch.optim.AdamW):
    """``step`` changes nothing, on any rank, when a gradient of any rank is NaN or infinite; ``refused`` says so.

    Under ZeRO each rank holds its own shard of the gradients, so the ranks agree by a minimum over their verdicts.
    """

    refused = False

    @torch.no_grad()
    def step(self, closure=None):
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        finite = torch.stack([torch.isfinite(g.sum()) for g in gradients]).all() if gradients else torch.tensor(True)
        verdict = finite.to(torch.float32)
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(verdict, op=dist.ReduceOp.MIN)
        self.refused = verdict.item() == 0.0
        return None if self.refused else super().step(closure)
