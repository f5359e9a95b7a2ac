"""Of a rank's gradients no more is in memory than a dry run counts."""

from pathlib import Path

import pytest
import torch

from support.gradient_cases import SAMPLES
from support.rank_probe import gradient_copies, in_a_rank
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine


def test_gradients_are_summed_in_one_buffer_with_the_bits_of_deepspeeds_own_sum(
    tmp_path: Path,
) -> None:
    """By itself it makes one for each row of a batch, and one more for the step."""
    model, config = (
        str(tiny_model_make(tmp_path / "tiny")),
        SessionConfig(micro_batch_tokens=64, learning_rate=1e-3),
    )
    samples = [*SAMPLES] * 4  # several rows
    (made, weights), (made_plain, weights_plain) = (
        in_a_rank(gradient_copies, model, config, samples, plain) for plain in (False, True)
    )
    assert made == 0 and made_plain > 2 * 2
    assert all(map(torch.equal, weights, weights_plain))
