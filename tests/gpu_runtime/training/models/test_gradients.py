"""Loss, log-probabilities and gradient equal brute force: plain transformers and peft in float64,
one datum at a time.

Packed and unpacked, adapters and all weights. Nothing of the trainer is used on the other side. All
losses go through the client in test_client_gradients.py; here are one whose targets are many and
one that looks at a whole sequence.
"""

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.model_interfaces import AdamParams, LoraConfig
from support.model_data import SETTINGS, drawn_data, gradient_of, plain_logprobs, plain_loss

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore:.*tie:UserWarning")]
CASES = {
    "gspo": ("gspo", None),
    "cross_entropy of three targets": ("cross_entropy", 3),
}
MODELS = {"adapters": LoraConfig(4, seed=1), "all weights": None}


@pytest.fixture(scope="module", params=[4096, 64], ids=["packed", "unpacked"])
def trainer(trainer_of, request):
    """Unpacked: hardly two of the data fit into a row."""
    return trainer_of(micro_batch_tokens=request.param)


@pytest.fixture(scope="module", params=MODELS)
def model(trainer, base, request, tmp_path_factory):
    """(trainer, folder of its state, LoraConfig, the same model in float64) after a first step: B
    is zero before it.
    """
    folder = tmp_path_factory.mktemp("model")
    trainer.create_model("m", MODELS[request.param])
    trainer.forward_backward("m", drawn_data("cross_entropy", seed=1), "cross_entropy", {})
    trainer.optim_step("m", AdamParams(learning_rate=1e-2))
    trainer.save_state("m", folder / "state")
    trainer.publish("m", folder / "sampler")
    plain = plain_model(base, folder / "sampler", MODELS[request.param])
    yield trainer, folder / "state", MODELS[request.param], plain
    trainer.unload("m")


def plain_model(base, folder, lora):
    if lora is None:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager"
        )
    plain = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float64, attn_implementation="eager"
    )
    return PeftModel.from_pretrained(plain, folder, is_trainable=True).double()


@pytest.mark.parametrize("case", CASES)
def test_loss_logprobs_and_gradient_equal_brute_force(model, case, tmp_path):
    trainer, state, lora, plain = model
    name, targets = CASES[case]
    data = drawn_data(name, targets=targets)
    trainer.load_state("m", state, True, False)
    result = trainer.forward_backward("m", data, name, SETTINGS[name])
    trainer.save_state("m", tmp_path / "after")
    measured = load_file(tmp_path / "after" / "gradient.safetensors")

    plain.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for datum, output in zip(data, result.outputs, strict=True):
        logprobs = plain_logprobs(plain, datum)
        assert output["logprobs"].shape == datum.loss_inputs["target_tokens"].shape
        np.testing.assert_allclose(output["logprobs"], logprobs.detach().numpy(), atol=2e-5)
        total = total + plain_loss(name, SETTINGS[name], list(logprobs.reshape(-1)), datum)
    total.backward()
    assert result.metrics["loss:sum"] == pytest.approx(total.item(), rel=1e-5, abs=1e-4)
    expected = gradient_of(plain)
    assert measured.keys() == expected.keys()
    apart = sum((measured[key].double() - expected[key]).square().sum() for key in expected)
    assert (apart / sum(each.square().sum() for each in expected.values())).sqrt().item() < 2e-5


def test_forward_computes_the_same_and_leaves_no_gradient(model, tmp_path):
    trainer, state, _, _ = model
    data = drawn_data("cross_entropy")
    trainer.load_state("m", state, True, False)
    forward = trainer.forward("m", data, "cross_entropy", {})
    trainer.save_state("m", tmp_path / "after")
    assert not (tmp_path / "after" / "gradient.safetensors").exists()
    backward = trainer.forward_backward("m", data, "cross_entropy", {})
    assert forward.metrics == backward.metrics
    for one, other in zip(forward.outputs, backward.outputs, strict=True):
        np.testing.assert_array_equal(one["logprobs"], other["logprobs"])
