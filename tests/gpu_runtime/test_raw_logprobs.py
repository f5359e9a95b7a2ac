"""The number at temperature 1 gets a column of its own in what the engine's worker returns of a
batch.
"""

from types import SimpleNamespace

import pytest
import torch

from gpu_runtime.engine.raw_logprobs import raw_fill

# Four sequences of 9 ids, of which the first and the last two ask: with one, none and three
# alternatives before it.
IDS = [[3, 5, 0, 0, 0], [8, 1, 2, 4, 6], [1, 0, 0, 0, 0], [2, 0, 1, 3, 0]]
ROWS, COLUMNS = [0, 2, 3], [2, 1, 4]


def batch(device: str) -> tuple[SimpleNamespace, torch.Tensor]:
    """As vLLM has it: ids in int32, and the logits of the rows that ask."""
    logits_RV = torch.randn(len(ROWS), 9, generator=torch.Generator().manual_seed(1))
    tensors = SimpleNamespace(
        logprob_token_ids=torch.tensor(IDS, dtype=torch.int32), logprobs=torch.zeros(4, 5)
    )
    moved = {name: tensor.to(device) for name, tensor in vars(tensors).items()}
    return SimpleNamespace(**moved), logits_RV.to(device)


def test_each_row_that_asks_has_the_number_of_its_sampled_token_under_an_id_of_no_other() -> None:
    tensors, logits_RV = batch("cpu")
    raw_fill(tensors, ROWS, COLUMNS, logits_RV)
    ids, logprobs = tensors.logprob_token_ids.tolist(), tensors.logprobs
    for place, (row, column) in enumerate(zip(ROWS, COLUMNS, strict=True)):
        expected = logits_RV[place].log_softmax(0)[IDS[row][0]]
        assert logprobs[row, column] == pytest.approx(expected.item(), abs=1e-6)
        assert ids[row][:column] == IDS[row][:column] and ids[row][column] not in IDS[row][:column]
    assert ids[1] == IDS[1] and int(logprobs.count_nonzero()) == len(ROWS), "nothing else changes"
    assert [ids[row][column] for row, column in zip(ROWS, COLUMNS, strict=True)] == [0, 0, 4], (
        "the least that is free"
    )


def test_no_tensor_of_a_cpu_meets_those_of_a_device_and_nothing_is_read_back() -> None:
    """On torch's device without memory either would be an error, as the first is on a GPU."""
    tensors, logits_RV = batch("meta")
    raw_fill(tensors, ROWS, COLUMNS, logits_RV)
    assert tensors.logprobs.is_meta
