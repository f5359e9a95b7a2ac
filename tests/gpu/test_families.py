"""Every family of docs/models.md on a CUDA device: FlexAttention, windows, caps, rows of several
blocks.
"""

import pytest
import torch

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from support.family_checks import drawn_samples, family_gaps
from support.model_families import TRAINED, family_make
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
CONFIG = SessionConfig(max_context_length=128)
CUDA = torch.device("cuda")


# Row lengths in FlexAttention's blocks of 128: less than one, five.
@pytest.mark.parametrize(("prompt", "answer"), [(24, 12), (200, 40)])
@pytest.mark.parametrize("name", TRAINED)
def test_log_probabilities_and_gradient_are_those_of_the_models_own_forward(
    tmp_path, record_property, device, name, prompt, answer
):
    samples = drawn_samples(prompt, answer)
    gap, gradient_gap = family_gaps(
        family_make(tmp_path, name), samples, CONFIG, torch.device(device)
    )
    record_property("log-probability, nats", gap)
    record_property("distance of the gradient over its norm", gradient_gap)
    assert gap < 1e-3
    assert gradient_gap < 1e-3


@pytest.mark.parametrize("name", ["Llama", "Gemma 2"])
def test_rows_of_any_length_are_attended_by_compiled_kernels(tmp_path, name):
    """Where the compiler gives up, FlexAttention goes on without it, with every pair's score in
    memory.
    """
    policy = Policy.load(str(family_make(tmp_path, name)), torch.float32, device="cuda").to(CUDA)
    torch._dynamo.reset()  # noqa: SLF001 - what other tests compiled counts towards its limit
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):  # noqa: SLF001 - it has no public name
        for tokens in (*range(20, 250, 17), 128, 256):
            sample = Sample(tuple(range(2, 92)) * 3, (0,) + (1,) * 269, (0.0,) * 270, 1.0)
            data = sample_data([_cut(sample, tokens)])
            row = pack_row(data, [0])
            with torch.no_grad():
                alone_K = policy(RowTensors.of(row, data, CUDA))
            logprobs_K = policy(RowTensors.of(row, data, CUDA))
            logprobs_K.sum().backward()
            assert (logprobs_K - alone_K).abs().max() < 1e-3


def _cut(sample: Sample, tokens: int) -> Sample:
    return Sample(
        sample.token_ids_T[:tokens], sample.mask_T[:tokens], sample.logprobs_T[:tokens], 1.0
    )
