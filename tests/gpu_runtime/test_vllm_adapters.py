"""The kernels for adapters, on a CPU and on a GPU: rows without an adapter, and the scores of a
prompt.
"""

import sys
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
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
    a, b = (
        [stacked(0, RANK, HIDDEN), stacked(3, RANK, HIDDEN)],
        [stacked(1, 5, RANK), stacked(2, 3, RANK)],
    )
    x, y = torch.randn(3, HIDDEN), torch.ones(3, 8)
    wrapper = SimpleNamespace()
    vars(wrapper)[kernels.GROUPS] = kernels.groups_of(torch.tensor(slots))
    kernels.linear_add(wrapper, y, x, a, b, 0.5, (5, 3), add_inputs=True)
    for row, slot in enumerate(slots):
        parts = [
            torch.zeros(len(each_b[0, 0]))
            if slot < 0
            else each_b[slot, 0] @ (each_a[slot, 0] @ x[row])
            for each_a, each_b in zip(a, b, strict=True)
        ]
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


def shrink(x: torch.Tensor, lora_a: Any, y: torch.Tensor, *meta: Any) -> None:
    """What vLLM's Triton kernel computes, of the rows that its arguments name; those run on a
    GPU."""
    y.zero_()
    for slot, rows in rows_of(meta):
        y[0, rows] = meta[-1] * x[rows] @ lora_a[0][slot, 0].t()


def expand(low: torch.Tensor, lora_b: Any, y: torch.Tensor, *meta: Any, add_inputs: bool) -> None:
    """The other kernel."""
    assert add_inputs
    for slot, rows in rows_of(meta):
        y[rows] += low[0, rows] @ lora_b[0][slot, 0].t()


def rows_of(meta: Any) -> list[tuple[int, torch.Tensor]]:
    """Of each adapter its slot and its rows."""
    _, ordered, counts, starts, slots, is_without, *_ = meta
    return (
        []
        if is_without
        else [
            (int(slot), ordered[start : start + count])
            for slot, count, start in zip(slots, counts, starts, strict=False)
            if slot >= 0
        ]
    )


def metadata_class() -> Any:
    """vLLM's, from its file: its package imports Triton."""
    folder = Path(import_module("vllm.lora.ops").__path__[0])
    file = folder / "triton_ops" / "lora_kernel_metadata.py"
    spec = spec_from_file_location("lora_kernel_metadata", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["lora_kernel_metadata"] = module  # which its dataclass looks up
    spec.loader.exec_module(module)
    return module.LoRAKernelMeta


class Scoring:
    """Three requests in one batch: a sampled token of the base, prompts of 4 and 3 tokens under the
    adapters of slots 1 and 0, and one of the base. Rows of the batch: 0, 1 to 4, 5 to 7, 8 to 9.
    """

    SLOT_OF = {"decode": -1, "a": 1, "b": 0, "base": -1}
    ROWS = {"decode": (0, 1), "a": (1, 5), "b": (5, 8), "base": (8, 10)}

    def __init__(self, wrapper: Any) -> None:
        from vllm.lora.layers import LoRAMapping

        self.wrapper = wrapper
        self.lora_a, self.lora_b = stacked(1, RANK, HIDDEN), stacked(2, VOCABULARY, RANK)
        self.head = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(5))
        self.states = torch.randn(10, HIDDEN, generator=torch.Generator().manual_seed(6))
        self.prompts = {"a": [3, 1, 4, 1], "b": [5, 9, 2], "base": [6, 5]}
        ids = {slot: slot + 1 for slot in range(SLOTS)} | {-1: 0}
        each = [ids[self.SLOT_OF[name]] for name in self.ROWS]
        tokens = [
            i
            for i, (first, last) in zip(each, self.ROWS.values(), strict=True)
            for _ in range(first, last)
        ]
        wrapper.update_metadata(
            LoRAMapping(tuple(tokens), tuple(each), is_prefill=True), [1, 2, 3], SLOTS, VOCABULARY
        )
        self.runner: Any = SimpleNamespace(
            num_prompt_logprobs={},
            requests={},
            device=torch.device("cpu"),
            input_batch=SimpleNamespace(
                req_id_to_index={name: row for row, name in enumerate(self.ROWS)}
            ),
            query_start_loc=SimpleNamespace(np=np.array([0, 1, 5, 8, 10])),
            model=SimpleNamespace(compute_logits=self.logits),
            model_config=SimpleNamespace(logprobs_mode="raw_logprobs"),
            _sync_device=lambda: None,
        )

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """As LogitsProcessorWithLoRA has them."""
        found = states @ self.head.t()
        self.wrapper.add_lora_logits(found, states, self.lora_a, self.lora_b, 1.0)
        return found

    def asked(self, name: str, columns: int, extra: Any = None) -> None:
        """A prompt is to be scored."""
        self.runner.num_prompt_logprobs[name] = columns
        self.runner.requests[name] = SimpleNamespace(
            prompt_token_ids=self.prompts[name],
            in_progress_prompt_logprobs_cpu=None,
            num_computed_tokens=0,
            sampling_params=SimpleNamespace(extra_args=extra),
        )

    def expected(self, name: str) -> torch.Tensor:
        """``logprobs_RV`` of a prompt's rows, each with its own adapter."""
        first, last = self.ROWS[name]
        states, slot = self.states[first : last - 1], self.SLOT_OF[name]
        found = states @ self.head.t()
        if slot >= 0:
            found += states @ self.lora_a[slot, 0].t() @ self.lora_b[slot, 0].t()
        return found.log_softmax(1)

    def scores(self) -> Any:
        """Of this step."""
        scheduled = {name: last - first for name, (first, last) in self.ROWS.items()}
        return self.runner._get_prompt_logprobs_dict(self.states, scheduled)  # noqa: SLF001


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> Scoring:
    """vLLM's GPU wrapper and runner on a CPU, as a worker on a GPU has them."""
    from vllm.lora.punica_wrapper import punica_gpu
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    from gpu_runtime.engine.prompt_rows import SCORING, prompt_heads_install, rows_install

    for name, value in (
        ("LoRAKernelMeta", metadata_class()),
        ("lora_shrink", shrink),
        ("lora_expand", expand),
    ):
        monkeypatch.setattr(punica_gpu, name, value, raising=False)
    wrapper_class = punica_gpu.PunicaWrapperGPU
    monkeypatch.setattr(wrapper_class, "add_lora_logits", wrapper_class.add_lora_logits)
    config = SimpleNamespace(max_loras=SLOTS, specialize_active_lora=False)
    made = Scoring(wrapper_class(16, 4, "cpu", lora_config=config))
    runner = made.runner
    runner.sampler = SimpleNamespace(
        compute_logprobs=Sampler.compute_logprobs, gather_logprobs=Sampler.gather_logprobs
    )
    setattr(runner, SCORING, partial(getattr(GPUModelRunner, SCORING), runner))
    prompt_heads_install(runner)
    rows_install(runner)
    return made


def test_on_a_gpu_a_prompt_is_scored_under_its_own_adapter(scoring: Scoring) -> None:
    """vLLM alone gives a prompt's rows the adapters of the sequences that are sampled."""
    for name in scoring.prompts:
        scoring.asked(name, 0)
    found = scoring.scores()
    for name, ids in scoring.prompts.items():
        wanted = scoring.expected(name).gather(1, torch.tensor(ids[1:])[:, None])
        assert torch.allclose(found[name].logprobs, wanted, atol=1e-5), name
    assert not scoring.runner.num_prompt_logprobs
    # the sampled rows of the step have their own again
    rows = scoring.states[[0, 4, 7, 9]]
    plain = rows @ scoring.head.t()
    assert [
        bool(torch.allclose(got, base))
        for got, base in zip(scoring.logits(rows), plain, strict=True)
    ] == [True, False, False, True]


def test_on_a_gpu_named_tokens_and_draws_are_of_the_adapter_that_is_asked(scoring: Scoring) -> None:
    from gpu_runtime.engine.prompt_rows import KEY, RowsAsked

    asked = RowsAsked([[7, 8], [9, 0], [2, 2]], draws=3, temperature=1.0, seed=4)
    scoring.asked("a", asked.columns, {KEY: asdict(asked)})
    scoring.asked("base", 0)
    found, expected = scoring.scores(), scoring.expected("a")
    assert found["a"].logprob_token_ids[:, :3].tolist() == [[1, 7, 8], [4, 9, 0], [1, 2, 2]]
    columns = found["a"].logprob_token_ids.long()
    assert torch.allclose(found["a"].logprobs, expected.gather(1, columns), atol=1e-5)
    assert torch.allclose(
        found["base"].logprobs, scoring.expected("base").gather(1, torch.tensor([[5]])), atol=1e-5
    )


def test_rows_are_made_on_the_device_of_the_scores() -> None:
    """A device without numbers: an operation that mixes it with a CPU's tensors raises."""
    from gpu_runtime.engine.prompt_rows import RowsAsked, _rows

    asked = RowsAsked([[7, 8], [9, 0]], draws=3, temperature=0.7, seed=4)
    scores = torch.empty(2, VOCABULARY, device="meta")
    found = _rows(asked, scores, 0, torch.empty(2, dtype=torch.int64, device="meta"))
    assert found.logprobs.shape == (2, 6)
    assert {tensor.device.type for tensor in found[:3]} == {"meta"}
