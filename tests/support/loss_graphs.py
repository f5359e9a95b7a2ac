"""Losses written in Python, as the wire has them: traced by torch.fx and encoded as the ``tinker`` client does."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.fx.node import _get_qualified_name

CONSTANTS = {torch.dtype: "dtype", torch.device: "device"}


def traced(loss: Callable[..., Any], **ranks: int) -> dict[str, Any]:
    """The body of a CustomLoss; ``ranks`` are those of its parameters, in their order."""
    nodes = []
    for node in torch.fx.symbolic_trace(loss).graph.nodes:
        target = node.target if isinstance(node.target, str) else _get_qualified_name(node.target)
        nodes.append(
            {
                "op": node.op,
                "name": node.name,
                "target": target.replace("_operator.", "operator.", 1),
                "args": [encoded(each) for each in node.args],
                "kwargs": {name: encoded(each) for name, each in node.kwargs.items()},
            }
        )
    inputs = [{"name": name, "rank": rank} for name, rank in ranks.items()]
    return {"name": loss.__name__, "inputs": inputs, "graph": {"format": 1, "nodes": nodes}}


def encoded(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, list):
        return [encoded(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": {name: encoded(each) for name, each in value.items()}}
    if isinstance(value, slice):
        return {"slice": [encoded(value.start), encoded(value.stop), encoded(value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if (kind := CONSTANTS.get(type(value))) is not None:
        return {kind: str(value).removeprefix("torch.")}
    return value
