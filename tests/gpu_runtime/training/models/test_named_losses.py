"""Each named loss is its formula, and its gradient that of the formula by finite differences, in
float64.
"""

import random
import re
from pathlib import Path

import pytest
import torch

from gpu_runtime.training.losses import FORMULAS, LossInputs, loss_tokens
from support.model_data import SETTINGS, drawn_data, plain_loss
from tinkerscript.wire.training.losses import CLIENT_LOSSES, HIGH, LOSSES, LOW

NAMES = sorted(CLIENT_LOSSES)
PAGE = Path(__file__).resolve().parents[4] / "docs/reference/losses.md"


def measured(name, datum, settings, logprobs):
    x = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    tensors = {
        key: torch.tensor(values.reshape(-1)).double() for key, values in datum.loss_inputs.items()
    }
    loss_E = loss_tokens(
        name, LossInputs(x, tensors, torch.zeros(len(logprobs), dtype=torch.long), settings)
    )
    return x, loss_E


def cases(name):
    for seed in range(3):
        rng = random.Random(seed)
        for datum in drawn_data(name, seed=seed)[:3]:
            yield datum, [rng.uniform(-5.0, -4.0) for _ in datum.token_ids_N]


def test_every_loss_has_a_formula():
    assert set(FORMULAS) == set(LOSSES)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_the_sum_of_its_formula(name):
    for datum, logprobs in cases(name):
        _, loss_E = measured(name, datum, SETTINGS[name], logprobs)
        assert loss_E.sum().item() == pytest.approx(
            plain_loss(name, SETTINGS[name], logprobs, datum), rel=1e-12
        )


@pytest.mark.parametrize("name", NAMES)
def test_its_gradient_equals_finite_differences(name):
    h = 1e-6
    for datum, logprobs in cases(name):
        x, loss_E = measured(name, datum, SETTINGS[name], logprobs)
        loss_E.sum().backward()
        for k in range(len(logprobs)):
            up, down = (
                [v + h * sign * (j == k) for j, v in enumerate(logprobs)] for sign in (1, -1)
            )
            rise = plain_loss(name, SETTINGS[name], up, datum, logprobs) - plain_loss(
                name, SETTINGS[name], down, datum, logprobs
            )
            assert x.grad[k].item() == pytest.approx(rise / (2 * h), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", [name for name in NAMES if SETTINGS[name].keys() & {LOW, HIGH}])
def test_the_cases_reach_what_a_bound_cuts_and_what_it_spares(name):
    """Without this the tests above could pass on a loss that has lost its clip."""
    unbound = {LOW: 0.0, HIGH: 1e9}
    free = {key: unbound.get(key, value) for key, value in SETTINGS[name].items()}
    different = []
    for datum, logprobs in cases(name):
        cut, spared = (
            measured(name, datum, settings, logprobs)[1] for settings in (SETTINGS[name], free)
        )
        different += (cut != spared).tolist()
    assert {*different} == {True, False}, (
        f"give {name} bounds that do in OWN_VALUES of tests/support/model_data.py"
    )


def test_weights_multiply_the_losses_of_ratios():
    datum, logprobs = next(cases("ppo"))
    _, plain_E = measured("ppo", datum, SETTINGS["ppo"], logprobs)
    datum.loss_inputs["weights"] = torch.linspace(-1, 2, len(logprobs)).numpy()
    _, loss_E = measured("ppo", datum, SETTINGS["ppo"], logprobs)
    torch.testing.assert_close(loss_E, plain_E * torch.linspace(-1, 2, len(logprobs)).double())


def test_every_loss_has_the_settings_of_its_row_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    defaults = {
        name: [float(each) for each in re.findall(r"[\d.]+", cell)] for name, cell in rows[1:]
    }
    assert defaults == {name: list(loss.settings.values()) for name, loss in CLIENT_LOSSES.items()}
