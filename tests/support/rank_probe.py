"""One rank of the real trainer in a process of its own, which reports what the product never asks
it for.
"""

import io
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.rank_process import rank_environment, rank_load
from gpu_runtime.training.rank_spec import RankSpec
from support.rank_steps import gradient_here, logprobs_here, optim_step_here
from tinkerscript.wire.config import SessionConfig

DEADLINE_S = 240.0
SUB_GROUP = 12_000  # elements


def in_a_rank(task: Callable[..., Any], *arguments: object) -> Any:
    """``task(*arguments)`` in a new process. Functions of this module alone: the child must be able
    to import them.
    """
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


def trainer_make(model: str, config: SessionConfig, device: str = "cpu"):
    """A RankTrainer in this process, the only rank. Takes options that TrainerRanks refuses on a
    CPU.
    """
    spec = RankSpec(model, config, 0, 1, f"{model}-ranks-{os.getpid()}", device, 1)
    rank_environment(spec)
    return rank_load(spec, lambda: None)


def gradients(
    model: str, runs: Sequence[tuple[SessionConfig, Sequence[Sample]]], device: str = "cpu"
) -> list[tuple[dict, dict, dict]]:
    """For each run: metrics, the gradient as AdamW is handed it, the trained parameters before the
    step; by name.

    With a KL term it is the second step's: at the first the policy is the reference, and the term
    has no gradient. Needs ZeRO 1 or 2, and a clip that is far away.
    """
    return [_gradient(trainer_make(model, config, device), samples) for config, samples in runs]


def _gradient(trainer, samples: Sequence[Sample]) -> tuple[dict, dict, dict]:
    if trainer.config.has_kl_loss:
        gradient_here(trainer, samples)
        optim_step_here(trainer, 1)
    trained = {
        name: parameter.detach().float().cpu().clone()
        for name, parameter in trainer.engine.module.model.named_parameters()
        if parameter.requires_grad
    }
    handed: list = []
    step = trainer.optimizer.step

    def record(closure=None):
        handed.extend(
            p.grad.float().cpu().clone()
            for group in trainer.optimizer.param_groups
            for p in group["params"]
        )
        return step(closure)

    trainer.optimizer.step = record
    metrics = gradient_here(trainer, samples)
    metrics |= optim_step_here(trainer, 1)
    # ZeRO 1 and 2 hand over one tensor, the parameters in their order and some padding
    (flat,) = handed
    gradient = {}
    for name, parameter in trained.items():
        piece, flat = flat[: parameter.numel()], flat[parameter.numel() :]
        gradient[name] = piece.view(parameter.shape).clone()
    return metrics, gradient, trained


def weights_after(
    model: str,
    runs: Sequence[tuple[SessionConfig, int]],
    batches: Sequence[Sequence[Sample]],
    device: str = "cpu",
) -> list[dict]:
    """For each run the weights after one step per batch; the number says after which step a new
    trainer goes on from the saved state (0: none does).
    """
    return [_weights(model, config, resume_at, batches, device) for config, resume_at in runs]


def _weights(
    model: str,
    config: SessionConfig,
    resume_at: int,
    batches: Sequence[Sequence[Sample]],
    device: str,
) -> dict:
    from safetensors.torch import load_file

    from support.published_weights import published_weights

    trainer = trainer_make(model, config, device)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step, samples in enumerate(batches, start=1):
            gradient_here(trainer, samples)
            optim_step_here(trainer, step)
            if step == resume_at:
                trainer.save_state(folder / "state")
                trainer = trainer_make(model, config, device)
                trainer.load_state(folder / "state")
        if device == "cuda":  # no process can open the handles that it has published itself
            trainer.export_model(folder / "model")
            return load_file(folder / "model" / "model.safetensors")
        trainer.publish(folder)
        return published_weights(folder)


def computation(
    model: str, runs: Sequence[tuple[SessionConfig, Sequence[Sample]]], device: str = "cpu"
) -> list[tuple[int, int, dict, dict]]:
    """For each run: how often the first layer's MLP ran in one forward and backward, the bytes that
    were saved for the backward pass, the metrics and the weights after the step.
    """
    return [_computation(trainer_make(model, config, device), samples) for config, samples in runs]


def _computation(trainer, samples: Sequence[Sample]) -> tuple[int, int, dict, dict]:
    import torch

    calls, saved = [], {}
    mlp = next(
        module for name, module in trainer.engine.module.named_modules() if name.endswith(".mlp")
    )
    mlp.register_forward_pre_hook(lambda *_: calls.append(1))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        metrics = gradient_here(trainer, samples)
    metrics |= optim_step_here(trainer, 1)
    weights = {
        name: weight.detach().cpu().clone()
        for name, weight in trainer.engine.module.named_parameters()
    }
    return len(calls), sum(saved.values()), metrics, weights


def observed(
    model: str, configs: Sequence[SessionConfig], samples: Sequence[Sample]
) -> list[dict[str, Any]]:
    """For each session: its ZeRO stage, whether weights are sharded and moments on the host, the
    norm of the gradient that AdamW is handed, and the adapters' first noise.
    """
    return [_observed(trainer_make(model, config), samples) for config in configs]


def observed_from_state(
    model: str, saved: SessionConfig, config: SessionConfig, samples: Sequence[Sample]
) -> dict[str, Any]:
    """As ``observed``, of a session that goes on from a state of a session ``saved``."""
    with tempfile.TemporaryDirectory() as folder:
        before = trainer_make(model, saved)
        gradient_here(before, samples)
        optim_step_here(before, 1)
        before.save_state(Path(folder))
        trainer = trainer_make(model, config)
        trainer.load_state(Path(folder))
    return _observed(trainer, samples)


def _observed(trainer, samples: Sequence[Sample]) -> dict[str, Any]:
    parameters = dict(trainer.engine.module.named_parameters())
    found = {
        "stage": trainer.engine.zero_optimization_stage(),
        "sharded": all(parameter.numel() == 0 for parameter in parameters.values()),
        # ZeRO 1 and 2 have the one attribute, ZeRO 3 the other.
        "offloaded": any(
            getattr(trainer.engine.optimizer, name, False)
            for name in ("cpu_offload", "offload_optimizer")
        ),
        "noise": [
            tensor.detach().clone() for name, tensor in parameters.items() if "lora_A" in name
        ],
    }
    step = trainer.optimizer.step

    def record(closure=None):
        handed = [
            p.grad.float() for group in trainer.optimizer.param_groups for p in group["params"]
        ]
        found["handed_norm"] = sum(float(gradient.square().sum()) for gradient in handed) ** 0.5
        return step(closure)

    trainer.optimizer.step = record
    gradient_here(trainer, samples)
    optim_step_here(trainer, 1)
    return found


def moving_reference(
    model: str, config: SessionConfig, samples: Sequence[Sample]
) -> dict[str, Any]:
    """One step, its state, and a trainer that loads it: weights of policy and reference, and
    log-probabilities before the step.
    """
    trainer = trainer_make(model, config)
    found: dict[str, Any] = {
        "base": _weights_of(trainer.references.main),
        "before": logprobs_here(trainer, samples),
    }
    found["reference_before"] = logprobs_here(trainer, samples, reference=True)
    if trainer.references.base is not None:
        found["second"] = _weights_of(trainer.references.base)
    gradient_here(trainer, samples)
    optim_step_here(trainer, 1)
    found |= {
        "policy": _weights_of(trainer.engine.module),
        "reference": _weights_of(trainer.references.main),
    }
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_state(Path(folder) / "state")
        other = trainer_make(model, config)
        other.load_state(Path(folder) / "state")
    return found | {"loaded": _weights_of(other.references.main)}


def earlier_state_loaded(
    model: str, config: SessionConfig, samples: Sequence[Sample]
) -> tuple[dict, dict]:
    """Weights after two steps, and after two between which another trainer took the state over, in
    the form of the release before.
    """
    from support.published_weights import published_weights

    trainer, found = trainer_make(model, config), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gradient_here(trainer, samples)
        optim_step_here(trainer, 1)
        trainer.engine.save_checkpoint(str(folder / "saved"), tag="state")
        resumed = trainer_make(model, config)
        resumed.load_state(folder / "saved")
        for number, each in enumerate((trainer, resumed)):
            gradient_here(each, samples)
            optim_step_here(each, 2)
            each.publish(folder / str(number))
            published = published_weights(folder / str(number))
            found.append({name: weight.clone() for name, weight in published.items()})
    return found[0], found[1]


def _weights_of(module) -> list:
    return [parameter.detach().clone() for parameter in module.parameters()]


def rank_load_in_sub_groups(spec: RankSpec, on_row):
    """``rank_load``, of ranks that cut even the tiny model into several sub-groups under ZeRO 3."""
    from gpu_runtime.training import trainer

    told = trainer.deepspeed_config

    def cut(config: SessionConfig, dtype: Any) -> dict[str, Any]:
        whole: dict[str, Any] = told(config, dtype)
        return whole | {
            "zero_optimization": whole["zero_optimization"] | {"sub_group_size": SUB_GROUP}
        }

    trainer.deepspeed_config = cut
    return rank_load(spec, on_row)


def sharded_and_whole(model: str, dtype: str) -> list[dict]:
    """Weights and buffers of a model that is loaded whole, and of one that is loaded in parts."""
    import deepspeed

    found = []
    for stage in (2, 3):
        config = SessionConfig(zero_stage=stage, dtype=dtype)
        module = trainer_make(model, config).engine.module
        with deepspeed.zero.GatheredParameters(list(module.parameters()), enabled=stage == 3):
            named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers()]
            found.append({name: tensor.detach().clone() for name, tensor in named})
    return found


def moved_to_the_host(
    model: str, configs: Sequence[SessionConfig], samples: Sequence[Sample]
) -> list[tuple]:
    """For each session: bytes copied to the host for the backward pass of one step, and the weights
    after it.
    """
    from gpu_runtime.training import checkpointing

    moved = []

    class Counted(checkpointing.save_on_cpu):
        def __init__(self, **options):
            super().__init__(**options)
            pack = self.pack_hook
            self.pack_hook = lambda tensor: (moved.append(tensor.nbytes), pack(tensor))[1]

    checkpointing.save_on_cpu = Counted
    found = []
    for config in configs:
        moved.clear()
        trainer = trainer_make(model, config)
        moved.clear()  # of the model's check
        gradient_here(trainer, samples)
        copied = sum(moved)
        optim_step_here(trainer, 1)
        with tempfile.TemporaryDirectory() as folder:
            trainer.export_model(Path(folder))
            from safetensors.torch import load_file

            found.append((copied, load_file(Path(folder) / "model.safetensors")))
    return found


def gradient_copies(
    model: str, config: SessionConfig, samples: Sequence[Sample], plain: bool
) -> tuple[int, list]:
    """How many gradients of all weights DeepSpeed makes in two steps, beside the one that it sums
    in; and the weights after them. ``plain``: as it is by itself.
    """
    trainer, made = trainer_make(model, config), list[str]()
    optimizer = trainer.engine.optimizer
    if plain:
        del vars(optimizer)["_use_compact_grad_partition_buffer"]
    copy, step = optimizer.copy_grads_in_partition, trainer.optimizer.step

    def copied(*arguments):
        had = optimizer.grads_in_partition is not None
        copy(*arguments)
        made.extend(["of a row"] * (not had and optimizer.grads_in_partition is not None))

    def stepped(closure=None):
        (handed,) = [p.grad for group in trainer.optimizer.param_groups for p in group["params"]]
        made.extend(["for the step"] * (handed.data_ptr() not in summed))
        return step(closure)

    optimizer.copy_grads_in_partition, trainer.optimizer.step = copied, stepped
    for number in (1, 2):
        gradient_here(trainer, samples)
        summed = {piece.data_ptr() for piece in optimizer.averaged_gradients.get(0) or ()}
        optim_step_here(trainer, number)
    return len(made), _weights_of(trainer.engine.module)


def changed_options(model: str, config: SessionConfig, samples: Sequence[Sample]) -> dict:
    """After a step: the loss under several weights of the KL term, and the rates of two steps."""
    trainer = trainer_make(model, config)
    gradient_here(trainer, samples)
    optim_step_here(trainer, 1)
    rates = [_rate(trainer)]
    losses = {}
    for kl_coef in (None, 0.0, 0.1, 0.5):
        changed = {} if kl_coef is None else {"kl_coef": kl_coef}
        losses[kl_coef] = gradient_here(trainer, samples, **changed)["loss"]
        trainer.drop_gradient()
    gradient_here(trainer, samples)
    optim_step_here(trainer, 2, learning_rate=3e-4)
    rates.append(_rate(trainer))
    return {"losses": losses, "rates": rates}


def _rate(trainer) -> float:
    (group,) = trainer.engine.optimizer.param_groups
    return group["lr"]
