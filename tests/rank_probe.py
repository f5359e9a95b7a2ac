"""One rank of the real trainer in a process of its own, which tells what nobody asks of it in the product."""

import io
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpu_runtime.interfaces import Sample
from gpu_runtime.training.ranks import RankSpec, rank_environment, rank_load
from tinkerscript.wire.config import SessionConfig

DEADLINE_S = 240.0


def in_a_rank(task: Callable[..., Any], *arguments: object) -> Any:
    """``task(*arguments)`` in a new process. Functions of this module alone: the child must be able to import them."""
    import torch

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        answer = pool.submit(_answered, task, arguments).result(timeout=DEADLINE_S)
    return torch.load(io.BytesIO(answer))


def _answered(task: Callable[..., Any], arguments: Sequence[object]) -> bytes:
    import torch

    # As bytes: tensors would travel as handles to memory that dies with the child.
    answer = io.BytesIO()
    torch.save(task(*arguments), answer)
    return answer.getvalue()


def trainer_make(model: str, config: SessionConfig):
    """A RankTrainer in this process, the only rank. Takes options that TrainerRanks refuses on a CPU."""
    if "MASTER_PORT" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
    spec = RankSpec(model, config, 0, 1, int(os.environ["MASTER_PORT"]), "cpu", 1)
    rank_environment(spec)
    return rank_load(spec)


def gradients(model: str, runs: Sequence[tuple[SessionConfig, Sequence[Sample]]]) -> list[tuple[dict, dict, dict]]:
    """For each run: metrics, the gradient as AdamW is handed it, the trained parameters before the step; by name.

    Needs ZeRO 1 or 2, and a clip that is far away.
    """
    return [_gradient(trainer_make(model, config), samples) for config, samples in runs]


def _gradient(trainer, samples: Sequence[Sample]) -> tuple[dict, dict, dict]:
    trained = {
        name: parameter.detach().float().clone()
        for name, parameter in trainer.engine.module.model.named_parameters()
        if parameter.requires_grad
    }
    handed: list = []
    step = trainer.optimizer.step

    def record(closure=None):
        handed.extend(p.grad.float().clone() for group in trainer.optimizer.param_groups for p in group["params"])
        return step(closure)

    trainer.optimizer.step = record
    metrics = trainer.forward_backward(samples)
    metrics |= trainer.optim_step(1)
    (flat,) = handed  # ZeRO 1 and 2 hand over one tensor, the parameters in their order and some padding
    gradient = {}
    for name, parameter in trained.items():
        piece, flat = flat[: parameter.numel()], flat[parameter.numel() :]
        gradient[name] = piece.view(parameter.shape).clone()
    return metrics, gradient, trained


def weights_after(
    model: str, runs: Sequence[tuple[SessionConfig, int]], batches: Sequence[Sequence[Sample]]
) -> list[dict]:
    """For each run the weights after one step per batch; the number says after which step a new trainer goes on from
    the saved state (0: none does)."""
    return [_weights(model, config, resume_at, batches) for config, resume_at in runs]


def _weights(model: str, config: SessionConfig, resume_at: int, batches: Sequence[Sequence[Sample]]) -> dict:
    from published_weights import published_weights

    trainer = trainer_make(model, config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step, samples in enumerate(batches, start=1):
            trainer.forward_backward(samples)
            trainer.optim_step(step)
            if step == resume_at:
                trainer.save_state(folder / "state")
                trainer = trainer_make(model, config)
                trainer.load_state(folder / "state")
        trainer.publish(folder)
        return published_weights(folder)
