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


@pytest.mark.parametrize(
    "slots", [[2, -1, 0], [1, 1, 1], [-1, -1, -1], [0, 0, 2]], ids=["three", "one", "none", "two"]
)
def test_each_row_gets_the_part_of_its_own_adapter_in_each_slice(
    kernels: ModuleType, slots: list[int]
) -> None:
    """A row without one gets nothing, as vLLM's kernels would give it of the last."""
    a, b = [stacked(0, RANK, HIDDEN), stacked(3, RANK, HIDDEN)], [stacked(1, 5, RANK), stacked(2, 3, RANK)]  # fmt: skip
    x, y = torch.randn(3, HIDDEN), torch.ones(3, 8)
    wrapper = SimpleNamespace()
    vars(wrapper)[kernels.GROUPS] = kernels.groups_of(torch.tensor(slots))
    kernels.linear_add(wrapper, y, x, a, b, 0.5, (5, 3), add_inputs=True)
    for row, slot in enumerate(slots):
        parts = [
            torch.zeros(len(each_b[0, 0])) if slot < 0 else each_b[slot, 0] @ (each_a[slot, 0] @ x[row])
            for each_a, each_b in zip(a, b, strict=True)
        ]  # fmt: skip
        assert torch.allclose(y[row], 1 + 0.5 * torch.cat(parts), atol=1e-5), slot


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
