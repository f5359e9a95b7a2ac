"""Every loss through the unmodified client and the wire equals brute force in float64: value,
log-probs, gradient.

Adapters and all weights, packed and unpacked, dense and sparse tensors, one target at a token and
three. What is compared with is plain transformers and peft, one datum and one token at a time;
nothing of the trainer is used there.
"""

import asyncio
import itertools
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig as PeftConfig
from peft import get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.model_interfaces import Datum
from support.model_data import (
    RATIO_LOSSES,
    SETTINGS,
    drawn_data,
    gradient_of,
    plain_logprobs,
    plain_loss,
)
from support.tinker_client_server import TINKER_SESSION, client_server_open
from support.tinker_exit import ended_well

ROOT = Path(__file__).resolve().parents[4]
TORCH = str(Path(torch.__file__).parents[1])  # with which a client computes a loss of its own
pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.*tie:UserWarning"),
]
KINDS = {"adapters": 4, "all weights": 0}  # rank
# tokens of a row: of 64, hardly two of the data fit into one
WAYS = {"packed": 4096, "unpacked": 64}


def sparse_data() -> list[Datum]:
    """Three targets at a token of which most have no weight: their ids and weights are zero, and
    not sent.
    """
    rng = np.random.default_rng(9)
    data = []
    for datum in drawn_data("cross_entropy", seed=8, targets=3):
        kept = rng.random(datum.loss_inputs["weights"].shape) < 0.3
        kept[0, 0] = True
        inputs = {
            name: np.where(kept, values, 0).astype(values.dtype)
            for name, values in datum.loss_inputs.items()
        }
        data.append(Datum(datum.token_ids_N, inputs))
    return data


CASES: list[tuple[str, str, list[Datum]]] = [
    ("before the first step", "cross_entropy", drawn_data("cross_entropy", seed=1)),
    *[(name, name, drawn_data(name)) for name in ("cross_entropy", *RATIO_LOSSES)],
    ("three targets", "cross_entropy", drawn_data("cross_entropy", targets=3)),
    ("sparse", "cross_entropy", sparse_data()),
    ("own loss", "custom", drawn_data("cross_entropy", seed=6, targets=3)),
]


# A loss of the client's own (client_losses.py) is a formula of here once more.
FORMULAS = {"custom": "cross_entropy"}


def written(name: str, datum: Datum) -> list[Any]:
    tensors = {
        key: {"dtype": "int64" if values.dtype.kind == "i" else "float32", "data": values.tolist(),
              "sparse": name == "sparse"}
        for key, values in datum.loss_inputs.items()
    }  # fmt: skip
    return [datum.token_ids_N.tolist(), tensors]


@pytest.fixture(scope="module")
def said(trainer_of, tmp_path_factory) -> dict[str, tuple[dict[str, Any], Path]]:
    """For each server what the client got, and the folder with what it saved there."""
    folder = tmp_path_factory.mktemp("servers")
    return asyncio.run(_drive(trainer_of, folder))


async def _drive(trainer_of: Any, folder: Path) -> dict[str, tuple[dict[str, Any], Path]]:
    async with AsyncExitStack() as stack:
        urls = {}
        for kind, way in itertools.product(KINDS, WAYS):
            name = f"{kind}, {way}"
            place, room = folder / name, WAYS[way]
            place.mkdir()
            urls[name] = await stack.enter_async_context(
                client_server_open(trainer_of(micro_batch_tokens=room), place)
            )
        cases = [
            [name, loss, SETTINGS.get(loss), [written(name, datum) for datum in data]]
            for name, loss, data in CASES
        ]
        servers = [[url, KINDS[name.partition(",")[0]]] for name, url in urls.items()]
        sent = {"servers": servers, "cases": cases}
        (folder / "cases.json").write_text(json.dumps(sent))
        clean = {
            name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")
        }
        client = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name("client_losses.py")), str(folder / "cases.json"), TORCH,
            cwd="/",
            env=clean | {"TINKER_API_KEY": "tml-test", "TINKER_TELEMETRY": "0"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(client.communicate(), 240)
        assert ended_well(client.returncode, err), err.decode()[-6000:]
        answers = json.loads(out.splitlines()[-1])
    return {name: (answers[url], folder / name / "store") for name, url in urls.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_loss_through_the_client_is_what_its_formula_says(kind, said, base):
    """Packed and unpacked are compared with the same numbers: their weights differ by rounding
    alone.
    """
    servers = [said[f"{kind}, {way}"] for way in WAYS]
    plain = plain_of(base, state_of(servers[0][1], 1), KINDS[kind])
    scored: dict[bytes, list[torch.Tensor]] = {}
    for number, (name, loss, data) in enumerate(CASES):
        if number == 0:
            continue  # it made the weights that the others are computed with
        key = b"".join(
            datum.token_ids_N.tobytes() + datum.loss_inputs["target_tokens"].tobytes()
            for datum in data
        )
        if key not in scored:
            scored[key] = [plain_logprobs(plain, datum) for datum in data]
        total, expected = brute_force(plain, FORMULAS.get(loss, loss), data, scored[key])
        norm = sum(each.square().sum() for each in expected.values()).sqrt().item()
        for answers, store in servers:
            answer = answers[name]
            for (shape, flat), logprobs in zip(answer["logprobs"], scored[key], strict=True):
                assert shape == list(logprobs.shape)
                np.testing.assert_allclose(flat, logprobs.detach().reshape(-1).numpy(), atol=2e-5)
            assert answer["loss"] == pytest.approx(total, rel=1e-5, abs=1e-4), name
            assert answer["grad_norm"] == pytest.approx(norm, rel=1e-5), name
            measured = load_file(state_of(store, number) / "gradient.safetensors")
            assert measured.keys() == expected.keys()
            apart = (
                sum((measured[key].double() - expected[key]).square().sum() for key in expected)
                .sqrt()
                .item()
            )
            assert apart / norm < 2e-5, name


def brute_force(
    plain: Any, loss: str, data: list[Datum], scored: list[torch.Tensor]
) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss, one token at a time, and its gradient: first to the log-probabilities, from there
    to the weights.
    """
    plain.zero_grad()
    leaves = [logprobs.detach().requires_grad_() for logprobs in scored]
    values = [
        plain_loss(loss, SETTINGS[loss], list(leaf.reshape(-1)), datum)
        for leaf, datum in zip(leaves, data, strict=True)
    ]
    total = sum(values)
    total.backward()
    # None where a clip cut all of a datum, which of a single number torch would take for one.
    grads = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    torch.autograd.backward(scored, grads, retain_graph=True)
    return total.item(), gradient_of(plain)


def state_of(store: Path, number: int) -> Path:
    return store / f"{TINKER_SESSION}:train:0-weights-case-{number}"


def plain_of(base: Path, state: Path, rank: int) -> Any:
    """The weights of a saved state as a model of transformers, or of peft with alpha 32, in
    float64.
    """
    weights = load_file(state / "weights.safetensors")
    plain = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float64, attn_implementation="eager"
    )
    if rank:
        layers = sorted({name.rsplit(".", 2)[0] for name in weights})
        plain = get_peft_model(
            plain, PeftConfig(r=rank, lora_alpha=32, target_modules=layers)
        ).double()
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(
                    weights.pop(name.removeprefix("base_model.model.").replace(".default", ""))
                )
    assert not weights, "every weight of the state has its place"
    return plain
