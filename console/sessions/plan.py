"""What a session would be, before it is one: its effective configuration, whether it fits, when its turn would be."""

import os
from pathlib import Path

from django.conf import settings

from console.errors import DoesNotFit, InvalidRequest
from console.sessions.catalogue import BaseModel, base_model_resolve, base_model_shape
from console.sessions.memory import GIB, memory_predict
from console.sessions.queue import queue_positions
from console.sessions.usage import key_budget_check
from console.users.keys import key_model_check
from console.users.models import ApiKey
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import MemoryEstimate, SessionCreate, SessionPlan

NVIDIA_DRIVER = Path("/proc/driver/nvidia")


def session_plan(*, body: SessionCreate, key: ApiKey | None = None) -> SessionPlan:
    """What creating this session would start. Nothing is written.

    Raises UnknownBaseModel, InvalidRequest when lengths do not fit each other or the model, DoesNotFit when one runtime
    may use less memory than it needs at least, Forbidden and BudgetExhausted when the key may not start it.
    """
    key_model_check(key=key, base_model=body.base_model)
    key_budget_check(key=key)
    model = base_model_resolve(body.base_model)
    lengths_check(model, body.config)
    memory, limit_bytes = _memory(model, body.config), memory_limit_bytes()
    # Activations are left out: they are an upper bound, reached only by batches that fill their rows.
    if memory and limit_bytes and (least := memory.total_bytes - memory.activation_bytes) > limit_bytes:
        raise DoesNotFit(
            f"This session needs at least {least / GIB:.1f} GiB of memory, a runtime here may use "
            f"{limit_bytes / GIB:.1f} GiB.",
            hint="Choose a smaller base model, a lora_rank above 0, or fewer trainer_ranks.",
            details={"memory": memory.model_dump(), "memory_limit_bytes": limit_bytes},
        )
    return SessionPlan(
        base_model=model.name,
        config=body.config,
        memory=memory,
        memory_limit_bytes=limit_bytes,
        queue_position=len(queue_positions()) + 1,
    )


def lengths_check(model: BaseModel, config: SessionConfig) -> None:
    """Raises InvalidRequest when an answer cannot be as long as asked, or a context longer than the model's."""
    if model.context_length and config.max_context_length > model.context_length:
        raise _refused(
            "max_context_length",
            f"max_context_length is {config.max_context_length}, {model.name} reads at most {model.context_length}.",
            hint="Lower config.max_context_length.",
        )
    if config.max_tokens > config.max_context_length:
        raise _refused(
            "max_tokens",
            f"max_tokens ({config.max_tokens}) is more than max_context_length ({config.max_context_length}).",
            hint="Lower config.max_tokens or raise config.max_context_length.",
        )


def _refused(option: str, problem: str, hint: str) -> InvalidRequest:
    """Names the option as the parser's refusals do, so that a form can show it at its field."""
    fields = [{"field": f"config.{option}", "problem": problem}]
    return InvalidRequest(problem, hint=hint, details={"fields": fields})


def memory_limit_bytes() -> int | None:
    """What one runtime may use: the launcher's limit, else all of this machine.

    None with GPUs: how much memory they have is not known here.
    """
    resources = settings.LAUNCHER.resources
    if _on_gpu():
        return None
    return resources.memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _memory(model: BaseModel, config: SessionConfig) -> MemoryEstimate | None:
    shape = base_model_shape(model)
    return None if shape is None else memory_predict(shape, config, on_gpu=_on_gpu())


def _on_gpu() -> bool:
    return settings.LAUNCHER.resources.gpus > 0 or (settings.LAUNCHER.name == "process" and NVIDIA_DRIVER.exists())
