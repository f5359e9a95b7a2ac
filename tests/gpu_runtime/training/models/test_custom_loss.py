"""Losses that a client wrote: their gradient is that of brute force, and what is not allowed costs nothing."""

import json
import math
import operator
import tracemalloc
import zlib
from base64 import urlsafe_b64encode

import numpy as np
import pytest
import torch
from torch.fx.node import _get_qualified_name
from torch.nn import functional

from gpu_runtime.model_interfaces import Datum, InvalidTrainingInput
from gpu_runtime.training.models.custom_loss import custom_find, function_of
from support.loss_graphs import traced
from support.model_data import drawn_data, plain_logprobs
from tinkerscript.wire.tinker import custom_loss as wire

PPO_RANKS = {"logprobs": 1, "old": 1, "advantages": 1, "scale": 0}


def own_ppo(logprobs, old, advantages, scale):
    """With a clip, a bonus of neighbours, a softmax over the datum, a scalar input and parts that carry no gradient."""
    ratio = (logprobs - old).exp()
    clipped = torch.where(ratio > 1.1, torch.clamp(ratio, 0.9, 1.1), ratio)
    policy = -(torch.minimum(ratio * advantages, clipped * advantages)).sum()
    smooth = functional.smooth_l1_loss(logprobs[1:], logprobs[:-1].detach(), reduction="sum")
    share = torch.softmax(logprobs / 2, dim=0) * torch.arange(0, logprobs.shape[0], dtype=torch.float32)
    kl = 0.05 * (logprobs - old).square().mean()
    loss = scale * policy + 0.1 * smooth + share.sum() + kl - functional.logsigmoid(logprobs).sum()
    clips = ((ratio - 1).abs() > 0.1).float()
    return loss, {"custom/kl:mean": kl.detach(), "custom/clips:sum": clips.sum()}


def rows(logprobs, weights):
    """[T, K]."""
    best, at = torch.max(logprobs, dim=1)
    spread = logprobs.logsumexp(-1) - best + (weights * logprobs).sum(dim=-1)
    return spread.sum() + torch.gather(logprobs, 1, at.unsqueeze(1)).sum(), {}


CAPTURED = {"floor": -3.5, "share": 0.25}


def picked(logprobs, old, advantages, scale):
    """Tokens that a mask picks, by a tensor of the datum and by the log-probabilities; constants from around it."""
    counted = advantages > 0
    kept = logprobs[counted] - old[counted]
    low = logprobs[logprobs < CAPTURED["floor"]]
    both = torch.stack([logprobs, old], dim=1)[counted, 0]
    rate = math.sqrt(logprobs.shape[0]) * CAPTURED["share"]
    loss = scale * kept.square().sum() - rate * both.sum() + (low - low.detach().mean()).square().sum()
    return loss, {"custom/kept:sum": counted.float().sum()}


def own_data() -> list[Datum]:
    data = []
    for place, datum in enumerate(drawn_data("ppo")):
        inputs = dict(datum.loss_inputs)
        inputs |= {"old": inputs.pop("logprobs"), "scale": np.array(0.5 + place, np.float32)}
        data.append(Datum(datum.token_ids_N, inputs))
    return data


def loss_id(body: dict) -> str:
    return wire.loss_pack(wire.CustomLoss.model_validate(body))


CASES = [
    (own_ppo, PPO_RANKS, own_data()),
    (picked, PPO_RANKS, own_data()),
    (rows, {"logprobs": 2, "weights": 2}, drawn_data("cross_entropy", targets=3)),
]


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore:.*tie:UserWarning")
@pytest.mark.parametrize(("loss", "ranks", "data"), CASES, ids=["own_ppo", "picked", "rows"])
@pytest.mark.parametrize("room", [4096, 64], ids=["packed", "unpacked"])
def test_gradients_of_a_clients_loss_are_those_of_brute_force(trainer_of, base, tmp_path, loss, ranks, data, room):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    trainer = trainer_of(micro_batch_tokens=room)
    trainer.create_model("a", None)
    config = {"loss_id": loss_id(traced(loss, **ranks))}
    answer = trainer.forward_backward("a", data, "custom", config)
    trainer.save_state("a", tmp_path / "state")
    measured = load_file(tmp_path / "state" / "gradient.safetensors")
    assert trainer.forward("a", data, "custom", config).metrics == answer.metrics
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    total, told = 0.0, dict[str, float]()
    for datum, output in zip(data, answer.outputs, strict=True):
        logprobs = plain_logprobs(plain, datum)
        assert np.allclose(output["logprobs"], logprobs.detach(), atol=2e-5)
        inputs = [torch.from_numpy(datum.loss_inputs[name].astype(np.float64)) for name in list(ranks)[1:]]
        value, metrics = loss(logprobs, *inputs)
        total += value
        for name, each in metrics.items():
            told[name] = told.get(name, 0.0) + each.item() / (len(data) if name.endswith("mean") else 1)
    total.backward()
    assert answer.metrics == pytest.approx({"loss:sum": total.item()} | told, rel=1e-5)
    expected = {name: each.grad for name, each in plain.named_parameters()}
    assert measured.keys() == expected.keys()
    apart = sum((measured[name].double() - expected[name]).square().sum() for name in expected).sqrt()
    assert apart / sum(each.square().sum() for each in expected.values()).sqrt() < 2e-5


def test_every_operation_of_the_lists_is_what_torch_fx_calls_by_that_name():
    for name in wire.FUNCTIONS:
        called = _get_qualified_name(function_of(name)).replace("_operator.", "operator.")
        assert called == name
    assert not [name for name in wire.METHODS if not callable(getattr(torch.Tensor, name))]
    assert not {name for name in wire.METHODS if name.endswith("_")}, "what ends in _ writes into its tensor"


def graph(*nodes: tuple, ranks: dict | None = None) -> dict:
    """A loss of these nodes between its placeholders and its output; the last of them is the loss."""
    ranks = ranks or {"logprobs": 1}
    inputs = [{"op": "placeholder", "name": name, "target": name} for name in ranks]
    rest = [
        {"op": op, "name": f"n{place}", "target": target, "args": args, "kwargs": kwargs[0] if kwargs else {}}
        for place, (op, target, args, *kwargs) in enumerate(nodes)
    ]
    last = {"ref": rest[-1]["name"] if rest else "logprobs"}
    output = {"op": "output", "name": "output", "target": "output", "args": [{"tuple": [last, {"dict": {}}]}]}
    given = [{"name": name, "rank": rank} for name, rank in ranks.items()]
    return {"name": "wild", "inputs": given, "graph": {"nodes": [*inputs, *rest, output]}}


LOGPROBS = {"ref": "logprobs"}


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (("call_function", "os.system", ["true"]), "os.system"),
        (("call_function", "torch.load", ["/etc/passwd"]), "torch.load"),
        (("call_function", "operator.attrgetter", ["x"]), "attrgetter"),
        (("call_function", "getattr", [LOGPROBS, "__class__"]), "reads T, device"),
        (("call_function", "getattr", [LOGPROBS, "data"]), "reads T, device"),
        (("call_function", "getattr", [LOGPROBS, "shape", 1]), "reads T, device"),
        (("call_method", "numpy", [LOGPROBS]), "numpy"),
        (("call_method", "add_", [LOGPROBS, 1]), "add_"),
        (("call_method", "__reduce__", [LOGPROBS]), "__reduce__"),
        (("call_function", "torch.exp", [LOGPROBS], {"out": LOGPROBS}), "keyword out"),
        (("call_function", "torch.randn", [3]), "torch.randn"),
        (("call_module", "linear", [LOGPROBS]), "functions and methods of tensors alone"),
        (("get_attr", "weight", []), "functions and methods of tensors alone"),
        (("call_function", "torch.exp", [{"ref": "later"}]), "'later'"),
        (("call_function", "torch.exp", ["text"]), "text"),
        (("call_function", "torch.exp", [{"dtype": "load"}]), "load"),
        (("call_function", "torch.exp", [{"float": ["inf"]}]), "inf"),
        (("call_function", "torch.exp", [{"ref": ["logprobs"]}]), "ref"),
        (("call_function", "torch.full", [{"tuple": [2**60]}, 0.0]), "53 bits"),
        (("call_function", "torch.exp", [[[[[[[[[[1]]]]]]]]]]), "nested"),
    ],
)
def test_a_graph_that_calls_what_is_not_allowed_is_refused_before_it_is_kept(node, said):
    with pytest.raises(wire.CustomLossRefused) as refused:
        loss_id(graph(node))
    assert said in str(refused.value)


def test_a_graph_that_is_not_whole_is_refused():
    whole = graph(("call_method", "sum", [LOGPROBS]))
    nodes = whole["graph"]["nodes"]
    for wrong in (
        nodes[1:], nodes[:-1], [*nodes[:-1], nodes[-1], nodes[-1]], [nodes[1], nodes[0], nodes[2]],
        [*nodes[:1], *nodes],
        [*nodes[:2], {**nodes[2], "args": [{"ref": "n0"}]}], [*nodes[:2], {**nodes[2], "kwargs": {"a": 1}}],
        [*nodes[:2], {**nodes[2], "args": [{"tuple": [{"ref": "n0"}, {"dict": {"loss:sum": {"ref": "n0"}}}]}]}],
    ):  # fmt: skip
        with pytest.raises(wire.CustomLossRefused):
            loss_id(whole | {"graph": {"nodes": wrong}})
    for inputs in (
        [{"name": "x", "rank": 1}],
        [{"name": "logprobs", "rank": 0}],
        [{"name": "logprobs", "rank": 1}] * 2,
    ):
        with pytest.raises(wire.CustomLossRefused):
            loss_id(whole | {"inputs": inputs})


# Of 3 numbers below zero none is picked, which is known once they are there: then 3 - 0 is a size.
MASKED = [
    ("call_function", "operator.gt", [LOGPROBS, 0]),
    ("call_function", "operator.getitem", [LOGPROBS, {"ref": "n0"}]),
    ("call_method", "numel", [{"ref": "n1"}]),
    ("call_function", "operator.sub", [3, {"ref": "n2"}]),
    ("call_function", "operator.mul", [{"ref": "n3"}, 10**12]),
]


@pytest.mark.parametrize(
    "last",
    [
        ("call_function", "torch.zeros", [{"ref": "n4"}]),
        ("call_function", "torch.zeros", [{"ref": "n4"}], {"device": {"device": "cpu"}}),
        ("call_method", "expand", [LOGPROBS, {"ref": "n4"}, -1]),
    ],
)
def test_what_comes_after_a_mask_is_known_before_memory_is_spent_too(last):
    found = custom_find({"loss_id": loss_id(graph(*MASKED, last, ("call_method", "sum", [{"ref": "n5"}])))})
    data = [Datum(np.array([1, 2, 3]), {"target_tokens": np.array([2, 3, 4])})]
    found.check(data)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidTrainingInput, match="datum 0, node 'n5'.*at most 16777216"):
            found.of_row(torch.tensor([-1.0, -2.0, -6.0]), np.array([0, 1, 2]), [0], data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([("call_function", "torch.zeros", [10**12])], "at most 16777216"),
        ([("call_method", "repeat", [LOGPROBS, 10**6, 10**6])], "at most 16777216"),
        ([("call_method", "expand", [LOGPROBS, 10**9, -1])], "at most 16777216"),
        ([("call_function", "torch.zeros", [10**12], {"device": {"device": "cpu"}})], "at most 16777216"),
        ([("call_function", "torch.zeros", [2**23])] * 20, "more than 67108864"),
        ([("call_function", "torch.zeros", [9000]),
          ("call_method", "unbind", [{"ref": "n0"}])], "4096"),
        ([("call_function", "operator.pow", [7, 10**9])], "power"),
        ([("call_function", "operator.mul", [{"tuple": [1]}, 10**9])], "53 bits"),
        ([("call_function", "torch.repeat_interleave", [LOGPROBS, {"ref": "logprobs"}])], "repeat_interleave"),
        ([("call_function", "math.exp", [LOGPROBS])], "plain numbers"),
        ([("call_function", "math.exp", [1e6])], "range"),
        (MASKED[:1] + [("call_function", "torch.zeros", [2, 1], {"dtype": {"dtype": "int64"}}),
         ("call_function", "operator.getitem", [LOGPROBS, {"tuple": [{"ref": "n0"}, {"ref": "n1"}]}])], "a mask goes"),
        ([("call_method", "sum", [3])], "method of tensors"),
        ([("call_function", "torch.exp", [LOGPROBS])], "of shape []"),
        ([("call_function", "operator.add", [1, 1])], "tensor of one number"),
        ([("call_function", "torch.tensor", [1])], "torch.int64"),
        ([("call_function", "operator.truediv", [1, 0])], "division by zero"),
        ([("call_method", "reshape", [LOGPROBS, 7, 7, 7])], "reshape"),
    ],
)  # fmt: skip
def test_what_a_loss_would_need_is_known_before_memory_is_spent(nodes, said):
    found = custom_find({"loss_id": loss_id(graph(*nodes))})
    data = [Datum(np.array([1, 2, 3]), {"target_tokens": np.array([2, 3, 4])})]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidTrainingInput) as refused:
            found.check(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert said in str(refused.value) and "datum 0" in str(refused.value)


def test_ids_that_nobody_made_are_refused_and_a_bomb_is_not_unpacked():
    bomb = wire.LOSS_ID + urlsafe_b64encode(zlib.compress(b" " * (64 << 20), 9)).decode()
    changed = json.dumps(graph(("call_function", "os.system", ["true"]))).encode()
    forged = wire.LOSS_ID + urlsafe_b64encode(zlib.compress(changed)).decode()
    tracemalloc.start()
    try:
        for wrong in (bomb, "loss-", "loss-%%%", "x", forged):
            with pytest.raises(InvalidTrainingInput):
                custom_find({"loss_id": wrong})
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    for config in ({}, {"loss_id": 1.0}, {"loss_id": "x", "beta": 1.0}):
        with pytest.raises(InvalidTrainingInput, match="create_custom_loss"):
            custom_find(config)


def test_data_that_do_not_fit_the_loss_are_named():
    found = custom_find({"loss_id": loss_id(traced(own_ppo, **PPO_RANKS))})
    good = own_data()[0]
    for change, said in (
        ({"old": None}, "no tensor 'old'"), ({"old": np.zeros((31, 2), np.float32)}, "declared 1"),
        ({"scale": np.zeros(31, np.float32)}, "declared 0"),
        ({"advantages": np.full(31, np.nan, np.float32)}, "not finite"),
    ):  # fmt: skip
        inputs = {name: value for name, value in (good.loss_inputs | change).items() if value is not None}
        with pytest.raises(InvalidTrainingInput, match="datum 1") as refused:
            found.check([good, Datum(good.token_ids_N, inputs)])
        assert said in str(refused.value)


def test_python_numbers_of_shapes_are_computed():
    length = ("call_function", "getattr", [LOGPROBS, "shape"])
    nodes = [length, ("call_function", "operator.getitem", [{"ref": "n0"}, 0]),
             ("call_function", "operator.pow", [{"ref": "n1"}, 2]), ("call_method", "sum", [LOGPROBS]),
             ("call_function", "operator.truediv", [{"ref": "n3"}, {"ref": "n2"}])]  # fmt: skip
    found = custom_find({"loss_id": loss_id(graph(*nodes))})
    data = [Datum(np.array([1, 2, 3]), {"target_tokens": np.array([2, 3, 4])})]
    found.check(data)
    logprobs = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    total, _ = found.of_row(logprobs, np.array([2, 0, 1]), [0], data)
    assert total.item() == 1.0 and operator.eq(total.requires_grad, True)
