"""Losses that a Tinker client wrote itself, traced by torch.fx and sent as data: what of them is read, what refused.

A graph names operations. Only those of the lists below are called (``gpu_runtime/training/models/custom_loss.py``).
A loss's id is the graph itself, compressed: nothing is stored, and an operation that is done again after a kill has it.
Source: the type ``CustomLossGraph`` of the ``tinker`` client, version 0.38.0.
"""

import base64
import re
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MAX_NODES, MAX_INPUTS, MAX_METRICS = 1000, 16, 64
MAX_BYTES = 256 << 10  # of a graph as JSON
MAX_DEPTH = 8  # of arguments inside each other
WHOLE_NUMBER = 2**53
LOSS_ID = "loss-"  # how every id begins
NAME, METRIC = re.compile(r"[a-z_][a-z0-9_]{0,63}"), re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")

# Both functions of torch and methods of its tensors. None of all these has a size that depends on values (but for
# operator.getitem with a mask), none draws random numbers, none changes what it is given.
_SHARED = """
    abs absolute acos acosh add addcdiv addcmul all amax amin any arccos arcsin arctan argmax argmin argsort asin asinh
    atan atan2 atanh broadcast_to ceil chunk clamp clamp_max clamp_min clip clone cos cosh count_nonzero cummax cummin
    cumprod cumsum deg2rad detach diag diagonal diff div divide dot eq erf erfc erfinv exp exp2 expm1 fix flatten flip
    floor floor_divide fmax fmin fmod frac gather ge greater greater_equal gt hypot index_select isclose isfinite isinf
    isnan kthvalue le lerp less less_equal lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp
    logical_and logical_not logical_or logical_xor logit logsumexp lt masked_fill matmul max maximum mean median min
    minimum mm movedim mul multiply mv nan_to_num nanmean nansum narrow ne neg negative not_equal numel outer
    permute positive pow prod quantile rad2deg ravel reciprocal relu remainder repeat_interleave reshape roll round
    rsqrt select sgn sigmoid sign sin sinh softmax sort sqrt square squeeze std sub subtract sum swapaxes t
    take_along_dim tan tanh tile topk transpose tril triu true_divide trunc unbind unflatten unsqueeze var where xlogy
"""
_TORCH = """
    arange cat column_stack concat cosine_similarity eye full full_like hstack linspace ones ones_like
    scalar_tensor stack std_mean tensor var_mean vstack zeros zeros_like
"""
_FUNCTIONAL = """
    binary_cross_entropy binary_cross_entropy_with_logits elu hardtanh huber_loss kl_div l1_loss leaky_relu
    log_softmax mse_loss normalize relu silu smooth_l1_loss softmax softmin softsign tanhshrink
"""
_OPERATOR = "abs add and_ eq floordiv ge getitem gt invert le lt matmul mod mul ne neg or_ pos pow sub truediv xor"
# Of plain numbers, such as those of a shape, under the names that torch.fx records. None is slower for larger numbers.
_MATH = """
    acos asin atan atan2 ceil cos cosh erf exp expm1 fabs floor fmod isfinite log log10 log1p log2 pow sin sinh sqrt tan
    tanh
"""
_TENSOR = """
    bool contiguous cpu dim double expand expand_as float int long new_full new_ones new_tensor new_zeros ndimension
    norm repeat reshape_as size split split_with_sizes to type_as view view_as
"""
_MODULES = {
    "torch": _SHARED + _TORCH,
    "torch.functional": "atleast_1d norm split",
    "torch.nn.functional": _FUNCTIONAL,
    "torch._C._nn": "gelu log_sigmoid softplus",
    "torch._C._special": "special_entr special_expit special_expm1 special_log1p special_xlog1py special_xlogy",
    "operator": _OPERATOR,
    "math": _MATH,
}
FUNCTIONS = frozenset(f"{module}.{name}" for module, names in _MODULES.items() for name in names.split())
GETATTR = frozenset({"getattr", "builtins.getattr"})
METHODS = frozenset(f"{_SHARED} {_TENSOR}".split())
ATTRIBUTES = frozenset({"T", "device", "dtype", "mT", "ndim", "shape"})
TEXTS = {"reduction": {"mean", "none", "sum"}, "rounding_mode": {"floor", "trunc"}}  # keywords and their values
WRITING = frozenset({"generator", "out"})  # keywords of operations that would change something
DTYPES = frozenset({"bool", "float32", "float64", "int32", "int64"})
# What an argument that is no plain value is written as, beside a float of FLOATS and {"ref": name}.
FLOATS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
NESTED = frozenset({"tuple", "dict", "slice"})
CONSTANTS = {"device": None, "layout": {"strided"}, "memory_format": {"contiguous_format", "preserve_format"}}


class CustomLossRefused(ValueError):
    """Why a loss is not computed here, in words for its client."""


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LossInput(_Sent):
    """``logprobs``, or a tensor of ``loss_fn_inputs``, with its number of dimensions."""

    name: str
    rank: Literal[0, 1, 2]


class LossNode(_Sent):
    """One node of the graph; an argument of another node is ``{"ref": name}``."""

    op: str
    name: str = Field(max_length=200)
    target: str = Field(max_length=200)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class LossGraph(_Sent):
    """The nodes in the order in which they are computed."""

    format: Literal[1] = 1
    nodes: list[LossNode] = Field(min_length=1, max_length=MAX_NODES)


class CustomLoss(_Sent):
    """A loss of one datum: from its log-probabilities and tensors to a number, and numbers that are told of it."""

    name: str = Field(max_length=200)
    inputs: list[LossInput] = Field(min_length=1, max_length=MAX_INPUTS)
    graph: LossGraph


def loss_pack(loss: CustomLoss) -> str:
    """The loss's id. Raises CustomLossRefused for a loss that is not computed here."""
    loss = CustomLoss(name=loss.name, inputs=loss.inputs, graph=loss.graph)
    loss_check(loss)
    packed = zlib.compress(loss.model_dump_json().encode(), 9)
    return LOSS_ID + base64.urlsafe_b64encode(packed).decode()


def loss_unpack(loss_id: str) -> CustomLoss:
    """The loss of an id, whoever made it. Raises CustomLossRefused; what is read is at most MAX_BYTES."""
    try:
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(base64.urlsafe_b64decode(loss_id.removeprefix(LOSS_ID)), MAX_BYTES)
        if not loss_id.startswith(LOSS_ID) or not unpacking.eof:
            raise CustomLossRefused("loss_id is none that create_custom_loss returned")
        loss = CustomLoss.model_validate_json(body)
    except (ValueError, zlib.error, ValidationError) as error:
        raise CustomLossRefused("loss_id is none that create_custom_loss returned") from error
    loss_check(loss)
    return loss


def loss_check(loss: CustomLoss) -> None:
    """Raises CustomLossRefused for a graph that is not whole, or has something that is not on the lists."""
    if len(loss.model_dump_json()) > MAX_BYTES:
        raise CustomLossRefused(f"the loss {loss.name} takes more than {MAX_BYTES >> 10} KiB")
    names = [each.name for each in loss.inputs]
    if names[0] != "logprobs" or loss.inputs[0].rank == 0 or len(set(names)) < len(names):
        raise CustomLossRefused("inputs begin with logprobs, of rank 1 or 2, and name each tensor once")
    if wrong := next((name for name in names if not NAME.fullmatch(name)), None):
        raise CustomLossRefused(f"inputs has the name {wrong!r}; a name has small letters, digits and '_'")
    nodes = loss.graph.nodes
    placed = [node.target for node in nodes if node.op == "placeholder"]
    if placed != names or any(node.op != "placeholder" for node in nodes[: len(names)]):
        raise CustomLossRefused(f"the graph begins with the placeholders {', '.join(names)}, and has no others")
    if [node.op for node in nodes].count("output") != 1 or nodes[-1].op != "output":
        raise CustomLossRefused("the graph ends with its one output")
    known: set[str] = set()
    for node in nodes:
        _node_check(node, known)
        known.add(node.name)
    _output_check(nodes[-1])


def _node_check(node: LossNode, known: set[str]) -> None:
    where = f"node {node.name!r} ({node.op} {node.target})"
    if node.name in known:
        raise CustomLossRefused(f"{where}: the name is another node's too")
    allowed = {"call_function": FUNCTIONS | GETATTR, "call_method": METHODS}
    if node.op in allowed and node.target not in allowed[node.op]:
        raise CustomLossRefused(f"{where} is not among the operations that a custom loss may use here")
    if node.op not in (*allowed, "placeholder", "output"):
        raise CustomLossRefused(f"{where}: a custom loss calls functions and methods of tensors alone")
    if node.op == "placeholder" and (node.args or node.kwargs):
        raise CustomLossRefused(f"{where} has a default; every input is given")
    _arguments_check(node, known, where)


def _arguments_check(node: LossNode, known: set[str], where: str) -> None:
    args = node.args
    if node.op == "call_function" and node.target in GETATTR:
        if len(args) != 2 or not isinstance(args[1], str) or args[1] not in ATTRIBUTES or node.kwargs:
            raise CustomLossRefused(f"{where}: of a tensor a custom loss reads {', '.join(sorted(ATTRIBUTES))}")
        args = args[:1]
    for name, value in node.kwargs.items():
        if isinstance(value, str) and value in TEXTS.get(name, ()):
            continue
        if name in WRITING:
            raise CustomLossRefused(f"{where} has the keyword {name}, which is not read here")
        _value_check(value, known, f"{where}, {name}", 0)
    for value in args:
        _value_check(value, known, where, 0)


def _value_check(value: Any, known: set[str], where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CustomLossRefused(f"{where}: arguments are nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool | float):
        return
    if isinstance(value, int):
        if abs(value) > WHOLE_NUMBER:
            raise CustomLossRefused(f"{where}: {value} is beyond 53 bits")
        return
    if isinstance(value, list):
        for each in value:
            _value_check(each, known, where, depth + 1)
        return
    kind, held = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if kind in NESTED:
        for each in _held(kind, held, where):
            _value_check(each, known, where, depth + 1)
        return
    is_right = (
        (kind == "ref" and isinstance(held, str) and held in known)
        or (kind == "float" and isinstance(held, str) and held in FLOATS)
        or (kind == "dtype" and isinstance(held, str) and held in DTYPES)
        or (kind == "ellipsis" and held is True)
        or (kind in CONSTANTS and (CONSTANTS[kind] is None or held in (CONSTANTS[kind] or ())))
    )
    if not is_right:
        raise CustomLossRefused(f"{where} has the argument {str(value)[:100]}, which is not read here")


def _held(kind: str, held: Any, where: str) -> Iterator[Any]:
    if kind == "dict" and isinstance(held, dict):
        return iter(held.values())
    if kind != "dict" and isinstance(held, list) and (kind == "tuple" or len(held) == 3):
        return iter(held)
    raise CustomLossRefused(f"{where} has no {kind} where it says so")


def _output_check(node: LossNode) -> None:
    """An output is (loss, {metric: number})."""
    match node.args:
        case [{"tuple": [loss, {"dict": dict(metrics)}]}] | [[loss, {"dict": dict(metrics)}]] if not node.kwargs:
            pass
        case _:
            raise CustomLossRefused("a custom loss returns a tensor and a dict of tensors")
    if len(metrics) > MAX_METRICS:
        raise CustomLossRefused(f"a custom loss tells at most {MAX_METRICS} metrics")
    for name, value in metrics.items():
        if not METRIC.fullmatch(name) or not _is_node(value):
            raise CustomLossRefused(f"metric {name!r}: a metric is custom/NAME:sum or custom/NAME:mean, and a tensor")
    if not _is_node(loss):
        raise CustomLossRefused("a custom loss returns a tensor and a dict of tensors")


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"ref"}
