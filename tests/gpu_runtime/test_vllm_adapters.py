"""The kernels for adapters, on a CPU and on a GPU: rows without an adapter, and the scores of a
prompt.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SLOTS, RANK, HIDDEN, VOCABULARY = 3, 4, 6, 10


def stacked(seed: int, rows: int, columns: int) -> torch.Tensor:
    """As vLLM keeps them: [slots, 1, rows, columns]."""
    return torch.randn(SLOTS, 1, rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def kernels() -> ModuleType:
    """Imported by a test and not above: what vLLM imports warns of its own future."""
    from gpu_runtime.engine.cpu import adapter_kernels

    return adapter_kernels


def test_a_row_without_an_adapter_gets_nothing_of_the_last_one(kernels: ModuleType) -> None:
    lora_a, x = stacked(0, RANK, HIDDEN), torch.randn(3, HIDDEN)
    buffer = torch.full((3, RANK), 7.0)
    kernels.shrink(x, lora_a, buffer, torch.tensor([2, -1, 0]), 0.5)
    assert torch.allclose(buffer[0], 0.5 * lora_a[2, 0] @ x[0], atol=1e-6)
    assert buffer[1].tolist() == [0.0] * RANK
    assert torch.allclose(buffer[2], 0.5 * lora_a[0, 0] @ x[2], atol=1e-6)


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled rows", "rows of a prompt"])
def test_logits_get_the_part_of_their_rows_own_adapter(kernels: ModuleType, sampled: bool) -> None:
    """Seven tokens of three requests: two of a prompt under adapter 1 follow four of the base."""
    lora_a, lora_b = stacked(1, RANK, HIDDEN), stacked(2, VOCABULARY, RANK)
    states = torch.randn(7, HIDDEN)
    tokens, requests = torch.tensor([-1, -1, -1, -1, 1, 1, 0]), torch.tensor([-1, 1, 0])
    wrapper = SimpleNamespace(sampler_indices=requests, token_lora_indices=tokens)
    x = states[[3, 5, 6]] if sampled else states[3:6]
    wanted = [-1, 1, 0] if sampled else [-1, 1, 1]
    logits = torch.zeros(3, VOCABULARY)
    kernels.logits_add(wrapper, logits, x, lora_a, lora_b, 2.0)
    for row, adapter in enumerate(wanted):
        expected = (
            torch.zeros(VOCABULARY)
            if adapter < 0
            else 2.0 * lora_b[adapter, 0] @ (lora_a[adapter, 0] @ x[row])
        )
        assert torch.allclose(logits[row], expected, atol=1e-5)


def test_on_a_gpu_a_prompt_is_scored_without_the_heads_of_the_sequences_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

    from gpu_runtime.engine.prompt_rows import base_prompts_install

    added: list[str] = []
    monkeypatch.setattr(
        PunicaWrapperGPU, "add_lora_logits", lambda _wrapper, rows: added.append(rows)
    )
    wrapper: Any = object.__new__(PunicaWrapperGPU)  # to make one takes a GPU

    class Runner:
        def _get_prompt_logprobs_dict(self, fails: bool) -> str:
            wrapper.add_lora_logits("rows of a prompt")
            if fails:
                raise RuntimeError
            return "scores"

    runner = Runner()
    base_prompts_install(runner)
    wrapper.add_lora_logits("sampled rows")
    assert runner._get_prompt_logprobs_dict(False) == "scores"  # noqa: SLF001 - vLLM's
    with pytest.raises(RuntimeError):
        runner._get_prompt_logprobs_dict(True)  # noqa: SLF001
    wrapper.add_lora_logits("of the next step")
    assert added == ["sampled rows", "of the next step"]
