"""The layers of a plain Llama compute as one function each on a CPU, and say what the model itself
says.
"""

import asyncio
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.loading.rehearsal import sample
from gpu_runtime.native.compiled import is_suited
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

# What vLLM imports warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
# of one batch: prefills and decoding together
PROMPTS = [[5, 7, 11], [0, *range(3, 60)], [9] * 33, [60, 41, 5, 7]]


def biased_model_make(folder: Path) -> Path:
    """A Llama whose attention has biases."""
    tiny_model_make(folder)
    config = AutoConfig.from_pretrained(folder)
    config.attention_bias = True
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.normal_(parameter, std=0.5)
        model.save_pretrained(folder)
    return folder


@pytest.mark.engine
@pytest.mark.parametrize(
    ("make", "flat"),
    [
        pytest.param(tiny_model_make, (2, is_suited()), id="plain"),
        pytest.param(biased_model_make, (0, False), id="with biases", marks=pytest.mark.nightly),
    ],
)
async def test_layers_that_are_known_are_flattened_and_every_token_has_the_models_own_log_probability(
    tmp_path: Path, make, flat: tuple[int, bool]
) -> None:
    folder = make(tmp_path / "model")
    engine = await VllmEngine.start(
        EngineSpec(str(folder), SessionConfig(max_context_length=256), "cpu")
    )
    try:
        assert [tuple(each) for each in await engine.llm.collective_rpc("layers_flatten")] == [flat]
        drawn = await asyncio.gather(*(sample(engine, prompt, 24) for prompt in PROMPTS))
    finally:
        await engine.close()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for each, prompt in zip(drawn, PROMPTS, strict=True):
        ids = torch.tensor(each.token_ids_T)
        with torch.no_grad():
            logprobs = model(ids[None]).logits[0].log_softmax(-1)
        expected = logprobs[:-1].gather(1, ids[1:, None])[len(prompt) - 1 :, 0]
        assert len(expected) == 24
        assert torch.allclose(
            torch.tensor(each.logprobs_T[len(prompt) :]), expected, atol=1e-5, rtol=0
        )


def test_a_model_of_another_kind_stays_as_it_is() -> None:
    # what it imports warns, which the mark above knows
    from gpu_runtime.engine.cpu.flat_layers import layers_flatten

    assert layers_flatten(nn.Linear(2, 2)) == (0, False)
