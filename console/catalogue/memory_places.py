"""The parts of memory_estimate.py on the places of a session: its machines, or its GPUs and their
host.

On a CPU the ranks are spread evenly over the session's machines, and each has a whole engine. Of
GPUs, each rank has one and engines have the others, on each of the session's machines, of which the
places of one are told; where there are no others, engines and ranks have the same ones. Such a GPU
is two places, because the two take turns: while a step runs the ranks have all of it, and between
steps the engine has what they do not keep.
"""

from collections.abc import Iterator

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import MemoryEstimate, MemoryPlace
from tinkerscript.wire.training.device_memory import (
    RESERVE_BYTES,
    SIZES,
    engine_device_count,
    engine_room_bytes,
)

from .memory_estimate import PROCESS_BYTES, RAY_BYTES, ModelShape, SessionMemory

SUMS = ("total_bytes", "available_bytes")
PARTS = [name for name in MemoryPlace.model_fields if name.endswith("_bytes") and name not in SUMS]


def memory_predict(
    shape: ModelShape,
    config: SessionConfig,
    *,
    devices: int = 0,
    trains: bool = True,
    one_engine: bool = False,
    machine_bytes: int | None = None,
    device_bytes: int | None = None,
) -> MemoryEstimate:
    """What each place of a session will hold, and all of them together; of an engine alone where it
    does not train.

    ``devices`` is its GPUs, 0 on a CPU; ``one_engine``: of several that would fit only one is
    started, as in sessions of Tinker clients. ``machine_bytes`` and ``device_bytes`` are what a
    machine and a GPU have (None: not known).
    """
    memory = SessionMemory(shape, config, on_gpu=devices > 0)
    if devices:
        places = list(_gpus(memory, devices, device_bytes, trains=trains, one_engine=one_engine))
    else:
        places = list(_machines(memory, machine_bytes, trains=trains))
    all_of = {name: sum(getattr(place, name) for place in places) for name in PARTS}
    return MemoryEstimate(
        total_bytes=sum(all_of.values()),
        engines=max(1, sum(place.engines for place in places)),
        engine_bytes=all_of["engine_weights_bytes"] + all_of["cache_bytes"],
        trainer_bytes=all_of["weights_bytes"] + all_of["gradient_bytes"],
        places=places,
        **{name: all_of[name] for name in MemoryEstimate.model_fields.keys() & all_of.keys()},
    )


def context_longest(
    shape: ModelShape,
    config: SessionConfig,
    *,
    devices: int = 0,
    trains: bool = True,
    one_engine: bool = False,
    device_bytes: int | None = None,
) -> int | None:
    """The longest context that the engine of ``memory_predict`` holds, over as many GPUs as it can
    be spread; None where that is not known, and where not even the weights fit.
    """
    memory = SessionMemory(shape, config, on_gpu=devices > 0)
    if not devices:
        return memory.longest_on_cpu()
    count, _, usable = _engine_room(memory, devices, device_bytes, trains=trains)
    if usable is None:
        return None
    spreads = [
        each
        for each in SIZES
        if each == 1 or (each <= count and not one_engine and shape.divides(each))
    ]
    return memory.longest_on_gpus(usable, spreads[-1]) or None


def place_least_bytes(place: MemoryPlace) -> int:
    """What the place holds at least: activations and head are upper bounds, reached by batches that
    fill their rows.
    """
    return place.total_bytes - place.activation_bytes - place.head_bytes


def place_short(estimate: MemoryEstimate) -> MemoryPlace | None:
    """The first place that has less than it holds at least."""
    short = (
        p
        for p in estimate.places
        if p.available_bytes is not None and place_least_bytes(p) > p.available_bytes
    )
    return next(short, None)


def _machines(
    memory: SessionMemory, available: int | None, *, trains: bool
) -> Iterator[MemoryPlace]:
    nodes = memory.config.nodes if trains else 1
    ranks = memory.config.trainer_ranks // nodes if trains else 0
    for node in range(nodes):
        parts = _of_ranks(memory, ranks)
        parts |= {"engine_weights_bytes": memory.model, "cache_bytes": memory.cache}
        parts["process_bytes"] = PROCESS_BYTES + (RAY_BYTES if nodes > 1 else 0)
        # on a disk where the session has several
        parts["handover_bytes"] = memory.handover if ranks and nodes == 1 else 0
        name = "machine" if nodes == 1 else f"machine {node + 1} of {nodes}"
        yield _place(name, parts, available, engines=1, ranks=ranks)


def _gpus(
    memory: SessionMemory, devices: int, available: int | None, *, trains: bool, one_engine: bool
) -> Iterator[MemoryPlace]:
    config = memory.config
    count, is_shared, usable = _engine_room(memory, devices, available, trains=trains)
    spread = _spread(memory, count, usable)
    engines = 1 if is_shared or one_engine else count // spread
    host = {"process_bytes": PROCESS_BYTES}
    offloaded = ["optimizer_bytes"] * config.offload_optimizer + [
        "activation_bytes"
    ] * config.offload_activations
    for device in range(devices):
        name = f"GPU {device + 1} of {devices}"
        rank = (device if is_shared else device - count) if trains else -1
        has_rank = 0 <= rank < config.trainer_ranks // config.nodes
        has_engine = device < engines * spread
        if has_engine:
            of_engine = {
                "engine_weights_bytes": memory.model // spread,
                "cache_bytes": memory.cache // spread,
            }
            first = int(device % spread == 0)
            yield _place(
                f"{name}, engine beside the trainer" if is_shared else name,
                of_engine,
                usable,
                engines=first,
                ranks=0,
            )
        if has_rank:
            parts = _of_ranks(memory, 1) | {"handover_bytes": memory.handover if rank == 0 else 0}
            for part in offloaded:
                host[part] = host.get(part, 0) + parts.pop(part)
            limit = (
                max(0, available - RESERVE_BYTES)
                if is_shared and available is not None
                else available
            )
            yield _place(f"{name}, step" if is_shared else name, parts, limit, engines=0, ranks=1)
        if not (has_rank or has_engine):
            yield _place(name, {}, available, engines=0, ranks=0)
    yield _place("host", host, None, engines=0, ranks=0)


def _engine_room(
    memory: SessionMemory, devices: int, available: int | None, *, trains: bool
) -> tuple[int, bool, int | None]:
    """How many of the GPUs are the engines', whether ranks use them too, and what an engine may use
    of each."""
    count, is_shared = engine_device_count(memory.config, devices) if trains else (1, False)
    if available is None:
        return count, is_shared, None
    return count, is_shared, engine_room_bytes(available, memory.kept if is_shared else None)


def _spread(memory: SessionMemory, most: int, usable: int | None) -> int:
    """Over how many GPUs one engine is spread: the fewest that its weights and one context fit,
    else the most.
    """
    possible = [count for count in SIZES if count <= most]
    if usable is None:
        return 1
    return next(
        (count for count in possible if (memory.model + memory.cache) // count <= usable),
        possible[-1],
    )


def _of_ranks(memory: SessionMemory, ranks: int) -> dict[str, int]:
    of_one = {
        "weights_bytes": memory.weights, "gradient_bytes": memory.gradients, "optimizer_bytes": memory.optimizer,
        "reference_bytes": memory.reference, "activation_bytes": memory.activations, "head_bytes": memory.head,
    }  # fmt: skip
    return {name: size * ranks for name, size in of_one.items()}


def _place(
    name: str, parts: dict[str, int], available: int | None, *, engines: int, ranks: int
) -> MemoryPlace:
    whole = dict.fromkeys(PARTS, 0) | parts
    total = sum(whole.values())
    return MemoryPlace(
        name=name,
        engines=engines,
        ranks=ranks,
        total_bytes=total,
        available_bytes=available,
        **whole,
    )
