"""Mixtures of experts by their folder: how many of their weights compute one token, and which
options they cannot have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinkerscript.wire.config import SessionConfig

from .quantised import weight_shapes
from .weight_files import config_fields, json_read

# Of the experts of a layer, and of those that a token takes; families differ in their words.
COUNTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "moe_topk",
    "moe_k",
    "top_k_experts",
    "moe_top_k",
)
MODULE = ".experts."  # in the name of a weight of experts
# The engine of a Tinker session adds adapters by itself.
NO_KERNEL = (
    "this model is a mixture of experts, and with adapters vLLM 0.32 computes experts by Triton "
    "kernels alone, which run on no CPU: serve the Tinker session on a GPU, or train by episodes"
)


@dataclass(frozen=True)
class Mixture:
    """Weights in all, and those that compute one token: of ``count`` experts in a layer ``chosen``
    ones, and whatever is no expert's.
    """

    count: int
    chosen: int
    parameters: int
    active: int

    @property
    def words(self) -> str:
        """What a plan says of it."""
        return (
            f"A mixture of experts: of its {_size(self.parameters)} weights {_size(self.active)} "
            f"compute a token ({self.chosen} of {self.count} experts a layer). Its memory is that "
            "of all weights, its speed about that of a model of the fewer ones."
        )


def mixture_of(folder: Path) -> Mixture | None:
    """The mixture in ``folder``; None of a dense model, and where no files say so."""
    fields = config_fields(json_read(folder / "config.json"))
    try:
        shapes = weight_shapes(folder)
    except (OSError, ValueError):
        return None
    count, chosen = _first(fields, COUNTS), _first(fields, CHOSEN)
    if not (count and chosen and count > 1):
        return None
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    experts = sum(size for name, size in sizes.items() if _is_expert(name, shapes[name], count))
    parameters = sum(sizes.values())
    if not experts:  # some hybrids have the fields and no such layer
        return None
    return Mixture(count, chosen, parameters, parameters - experts + experts * chosen // count)


def mixture_refusal(folder: Path, config: SessionConfig) -> str | None:
    """Why the model in ``folder`` cannot have an option of ``config`` that is about experts; None
    where it can.
    """
    has_router = mixture_of(folder) is not None or not weight_shapes(folder)
    if config.router == "frozen" and not has_router:
        return "router is frozen, and this model has no experts: leave router at trained"
    if not config.routing_replay and not has_router:
        return "routing_replay is false, and this model has no experts: leave it out"
    return None


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    found = next((fields[name] for name in names if fields.get(name)), None)
    if isinstance(found, list):  # Hunyuan, layer by layer
        found = max(found)
    return found if isinstance(found, int) else None


def _is_expert(name: str, shape: tuple[int, ...], count: int) -> bool:
    """Whether a weight is an expert's, or (Granite) all experts' of a layer."""
    return MODULE in name or (len(shape) == 3 and shape[0] == count)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} billion" if count >= 1e9 else f"{count / 1e6:.1f} million"
