"""A dry run of creating a session: its effective configuration, whether it fits, its position in
the queue.
"""

from pathlib import Path
from typing import Any

from django.conf import settings

from console.catalogue.base_models import BaseModel, base_model_resolve, base_model_shape
from console.catalogue.memory_estimate import GIB
from console.catalogue.memory_places import (
    context_longest,
    memory_predict,
    place_least_bytes,
    place_short,
)
from console.errors import DoesNotFit, InvalidRequest, ModelUnsupported, UnknownBaseModel
from console.object_store import seaweedfs
from console.sessions.limits.devices import device_bytes, devices_needed, devices_serving
from console.sessions.limits.places import (
    nodes_check,
    place_choose,
    place_launcher,
    shared_rows_check,
)
from console.sessions.limits.queue import queue_position_new
from console.sessions.limits.usage import key_budget_check
from console.sessions.starting_points import StartingPoint
from console.users.keys import key_model_check
from console.users.models import ApiKey, Project, User
from tinkerscript.processes import machine_share
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import (
    MemoryEstimate,
    MemoryPlace,
    SessionCreate,
    SessionKind,
    SessionPlan,
)
from tinkerscript.wire.training.defaults import config_resolve
from tinkerscript.wire.training.model_refusals import (
    engine_refusal,
    folder_refusal,
    prefixes_words,
    quantised_plan,
)
from tinkerscript.wire.training.models.mixtures import (
    NO_KERNEL,
    mixture_of,
    mixture_refusal,
)


def dry_run(
    *,
    project: Project,
    body: SessionCreate,
    key: ApiKey | None = None,
    person: User | None = None,
    kind: SessionKind = SessionKind.EPISODES,
    start: StartingPoint | None = None,
) -> SessionPlan:
    """What creating this session would start, and where it would stand. Nothing is written.

    Raises what ``config_decide`` raises.
    """
    start = start or StartingPoint(body.base_model)
    config, memory, limit_bytes = config_decide(body=body, key=key, kind=kind, start=start)
    owner = person.pk if person else None
    return SessionPlan(
        base_model=start.base_model,
        started_from=start.started_from,
        config=config,
        memory=memory,
        memory_limit_bytes=limit_bytes,
        queue_position=queue_position_new(
            project_id=project.id, person=owner, devices=config.devices or 0
        ),
        prefixes=_prefixes(start, config, kind),
        quantised=quantised_plan(Path(_base_of(start).path)),
        experts=mixture.words if (mixture := mixture_of(Path(_base_of(start).path))) else None,
    )


def _prefixes(start: StartingPoint, config: SessionConfig, kind: SessionKind) -> str | None:
    if kind is SessionKind.SERVING:  # which trains nothing
        return None
    return prefixes_words(
        Path(_base_of(start).path), config.grpo_n if kind is SessionKind.EPISODES else None
    )


def config_decide(
    *,
    body: SessionCreate,
    key: ApiKey | None = None,
    kind: SessionKind = SessionKind.EPISODES,
    start: StartingPoint | None = None,
) -> tuple[SessionConfig, MemoryEstimate | None, int | None]:
    """The effective configuration of a session, the memory that it is predicted to need, and how
    many bytes one runtime may use there (None: not known). ``start``: where it begins, if not at
    the base model that ``body`` names.

    Raises UnknownBaseModel, InvalidRequest when lengths do not fit each other or the model or its
    devices cannot be had, or a state is of another form, DoesNotFit when one runtime may use less
    memory than it needs at least, Forbidden and BudgetExhausted when the key may not start it.
    """
    start = start or StartingPoint(body.base_model)
    key_model_check(key=key, base_model=start.base_model)
    key_budget_check(key=key)
    model = _base_of(start)
    asked = start.config_complete(body.config)
    lengths_check(model, asked)
    model_check(model, asked)
    if kind is SessionKind.EPISODES and (why := mixture_refusal(Path(model.path), asked)):
        option = why.partition(" is ")[0]
        raise InvalidRequest.of_field(
            f"config.{option}", why, hint="Change this option as it says."
        )
    config = place_choose(config=asked)
    serves = kind is SessionKind.SERVING
    devices = devices_serving() if serves else devices_needed(config=config)
    start.dtype_check(config, devices=devices)
    nodes_check(config=config)
    shared_rows_check(config=config, devices=devices)
    on_gpu = devices > 0
    engine_check(model, on_gpu=on_gpu, adapters=kind is SessionKind.TINKER)
    shape = base_model_shape(model)
    limit_bytes = memory_limit_bytes(place=config.place, on_gpu=on_gpu)
    memory = None
    if shape is not None:
        given: dict[str, Any] = {
            "devices": devices,
            "trains": not serves,
            "one_engine": kind is not SessionKind.EPISODES,
            "device_bytes": device_bytes(config.place) if on_gpu else None,
        }
        memory = memory_predict(shape, config, machine_bytes=limit_bytes, **given)
        longest = context_longest(shape, config, **given)
        context_check(config, longest, "a GPU" if on_gpu else "a CPU")
        memory_check(
            memory,
            serves=serves,
            limit_bytes=limit_bytes,
            may_offload=on_gpu and not config.offload_optimizer,
        )
    config = config_resolve(config, shape.parameters if shape else None)
    return config.model_copy(update={"devices": devices or None}), memory, limit_bytes


def _base_of(start: StartingPoint) -> BaseModel:
    """Raises UnknownBaseModel, and InvalidRequest where a checkpoint's base model is not on this
    server any more."""
    try:
        return base_model_resolve(start.base_model)
    except (UnknownBaseModel, InvalidRequest) as gone:
        if start.started_from is None:
            raise
        raise InvalidRequest(
            f"{start.started_from.checkpoint_id} was trained from {start.base_model}, which this "
            "server needs for it"
            f" and does not have any more. {gone.message}",
            hint=f"Let the operator add {start.base_model} again: `manage.py add_model`.",
        ) from None


def memory_check(
    memory: MemoryEstimate, *, serves: bool, limit_bytes: int | None, may_offload: bool = False
) -> None:
    """Raises DoesNotFit, with the bytes of each part, for a machine or GPU that holds more than it
    has.
    """
    short = place_short(memory)
    if short is None or short.available_bytes is None:
        return
    least, available = place_least_bytes(short), short.available_bytes
    where = "" if short.name == "machine" else f" on {short.name}"
    raise DoesNotFit(
        f"This session needs at least {least / GIB:.1f} GiB of memory{where} ({least} bytes: "
        f"{_largest(short)}), "
        f"and may use {available / GIB:.1f} GiB there ({available} bytes).",
        hint="Choose a smaller model." if serves else _training_hint(short, may_offload),
        details={
            "memory": memory.model_dump(),
            "memory_limit_bytes": limit_bytes,
            "place": short.name,
        },
    )


def context_default_longest(model: BaseModel, *, lora_rank: int) -> int | None:
    """The longest context that the engine of a Tinker client's session holds; None where that is
    not known."""
    shape, config = base_model_shape(model), SessionConfig(lora_rank=lora_rank)
    if shape is None:
        return None
    devices = devices_needed(config=config)
    room = device_bytes(config.place) if devices else None
    return (
        context_longest(shape, config, devices=devices, one_engine=True, device_bytes=room) or None
    )


def context_check(config: SessionConfig, longest: int | None, where: str) -> None:
    """Raises InvalidRequest for a context that the engine's keys and values cannot hold, with the
    ``longest`` that fits (None: not known) ``where`` it runs."""
    length = config.max_context_length
    if longest is None or length <= longest:
        return
    raise InvalidRequest.of_field(
        "config.max_context_length",
        f"max_context_length is {length}, and the engine's keys and values hold {longest} tokens on "
        f"{where}.",
        hint=f"Lower config.max_context_length to {longest} at most, or take a model with fewer keys "
        "and values.",
    )


def _training_hint(short: MemoryPlace, may_offload: bool) -> str:
    hint = "Choose a smaller base model, a lora_rank above 0, or fewer trainer_ranks"
    if short.reference_bytes:
        hint += ", or set kl_coef to 0, which keeps no reference"
    if may_offload:
        hint += ", or set offload_optimizer, which keeps 12 bytes a weight in the host's memory"
    return f"{hint}."


def _largest(place: MemoryPlace) -> str:
    """The parts that are always there, the largest first."""
    told = {
        "weights": place.weights_bytes, "gradients": place.gradient_bytes, "optimizer": place.optimizer_bytes,
        "reference": place.reference_bytes, "hand-over": place.handover_bytes, "engine": place.engine_weights_bytes,
        "keys and values": place.cache_bytes, "processes": place.process_bytes,
    }  # fmt: skip
    parts = sorted(((size, name) for name, size in told.items() if size), reverse=True)
    return ", ".join(f"{name} {size / GIB:.1f}" for size, name in parts) + " GiB"


def lengths_check(model: BaseModel, config: SessionConfig) -> None:
    """Raises InvalidRequest when max_tokens exceeds the context length, or that the model's."""
    if model.context_length and config.max_context_length > model.context_length:
        raise InvalidRequest.of_field(
            "config.max_context_length",
            f"max_context_length is {config.max_context_length}, {model.name} reads at most "
            f"{model.context_length}.",
            hint="Lower config.max_context_length.",
        )
    if config.max_tokens > config.max_context_length:
        raise InvalidRequest.of_field(
            "config.max_tokens",
            f"max_tokens ({config.max_tokens}) is more than max_context_length "
            f"({config.max_context_length}).",
            hint="Lower config.max_tokens or raise config.max_context_length.",
        )


def model_check(model: BaseModel, config: SessionConfig) -> None:
    """Raises ModelUnsupported where the files of the model's folder show that it is not trained
    right.
    """
    if refusal := folder_refusal(Path(model.path), config):
        raise ModelUnsupported.of_field(
            "base_model",
            refusal,
            hint="docs/models.md lists what trains right. Choose another base model, or do what is "
            "said above.",
        )


def engine_check(model: BaseModel, *, on_gpu: bool, adapters: bool = False) -> None:
    """Raises ModelUnsupported where the engine of such machines has no kernel for the model, or
    none for ``adapters`` on it.
    """
    folder = Path(model.path)
    refusal = engine_refusal(folder, on_gpu=on_gpu)
    if adapters and not on_gpu and mixture_of(folder) is not None:
        refusal = refusal or NO_KERNEL
    if refusal:
        raise ModelUnsupported.of_field(
            "base_model",
            refusal,
            hint="GET /v1/places lists where sessions of this server can run.",
        )


def memory_limit_bytes(*, place: str, on_gpu: bool) -> int | None:
    """What one runtime may use there: the launcher's limit, else that of this server's own control
    group, of which the embedded store has its part.

    None with GPUs: how much memory they have is not known here.
    """
    if on_gpu:
        return None
    if limit_bytes := place_launcher(place).resources.memory_bytes:
        return limit_bytes
    return machine_share.memory_bytes() - (
        0 if settings.S3_ENDPOINT_URL else seaweedfs.MEMORY_BYTES
    )
