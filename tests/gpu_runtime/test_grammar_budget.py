"""A grammar that grows slow after the tokens that were tried uses up its call's budget, and no more
than that.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.engine.grammars.budget import TOKEN_CPU_S, bounded, budget_install
from gpu_runtime.engine.grammars.trial import TOKENS_TRIED
from gpu_runtime.engine.vllm_process import executor

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

MODEL = Path(__file__).parents[2] / ".data" / "models" / "SmolLM2-135M-Instruct"
CPU_S = 0.5
# Quick for as many characters as are tried; what follows reads a text in more ways with each token.
LATE = f"root ::= [0-9]{{{2 * TOKENS_TRIED}}} s\ns ::= s s | [a-z]\n"
QUICK = "root ::= [0-9]+ [a-z]+\n"
Followed = Callable[[str, int], tuple[int, bool, Any]]


@pytest.fixture(scope="module")
def backend() -> Any:
    from vllm.config import ModelConfig
    from vllm.tokenizers import cached_tokenizer_from_config
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    if not (MODEL / "tokenizer.json").is_file():
        pytest.skip("the base model is not there: requirements/install.sh model")
    model_config = ModelConfig(model=str(MODEL))
    config: Any = SimpleNamespace(
        model_config=model_config, speculative_config=None,
        structured_outputs_config=SimpleNamespace(disable_any_whitespace=False),
    )  # fmt: skip
    tokenizer = cached_tokenizer_from_config(model_config=model_config)
    return XgrammarBackend(config, tokenizer=tokenizer, vocab_size=model_config.get_vocab_size())


@pytest.fixture
def followed(backend: Any, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """How many tokens of a text the engine's core would take, whether that was all, and the
    grammar.
    """
    from vllm.v1.structured_output import backend_xgrammar
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    # put back at the end
    monkeypatch.setattr(backend_xgrammar, "XgrammarGrammar", backend_xgrammar.XgrammarGrammar)
    budget_install(CPU_S)

    def follow(text: str, tokens: int) -> tuple[int, bool, Any]:
        grammar = backend.compile_grammar(
            StructuredOutputOptions.GRAMMAR, text, stop_token_ids=None
        )
        bitmask, ids = backend.allocate_token_bitmask(1), backend.tokenizer.convert_tokens_to_ids
        for taken in range(tokens):
            grammar.fill_bitmask(bitmask, 0)
            if not grammar.accept_tokens("call", [ids("7" if taken < 2 * TOKENS_TRIED else "a")]):
                return taken, False, grammar
        return tokens, True, grammar

    return follow


@pytest.mark.engine
def test_it_ends_within_its_budget_and_a_quick_one_goes_on(followed: Followed) -> None:
    began = time.thread_time()
    taken, is_whole, grammar = followed(LATE, 2000)
    assert taken > 2 * TOKENS_TRIED and not is_whole, "it was quick where it is tried"
    assert CPU_S < grammar.spent_s <= time.thread_time() - began
    taken, is_whole, grammar = followed(QUICK, 2000)
    assert is_whole and grammar.spent_s < CPU_S + 2000 * TOKEN_CPU_S


@pytest.mark.engine
def test_a_grammar_beyond_its_budget_costs_nothing_more_and_one_at_its_end_is_whole(
    backend: Any,
) -> None:
    class Counted:
        is_ended, filled = False, 0

        def fill_bitmask(self, bitmask: Any, idx: int) -> None:
            self.filled += 1

        def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
            began = time.thread_time()
            while time.thread_time() - began < 2 * TOKEN_CPU_S:
                pass
            return True

        def is_terminated(self) -> bool:
            return self.is_ended

    bitmask = backend.allocate_token_bitmask(2)
    bitmask.fill_(0)
    over = bounded(Counted, -1.0)()
    over.fill_bitmask(bitmask, 1)
    assert (
        over.filled == 0 and bitmask[1].tolist() == [-1] * bitmask.shape[1] and not bitmask[0].any()
    )
    assert not over.accept_tokens("call", [1])
    for is_ended in (True, False):
        last = bounded(Counted, 0.0)()
        last.is_ended = is_ended
        assert last.accept_tokens("call", [1]) == is_ended, (
            "an answer that has come to its end is whole"
        )


def test_each_token_adds_to_the_budget_of_its_call() -> None:
    class Quick:
        def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
            return True

        def is_terminated(self) -> bool:
            return False

    for taken, goes_on in ((99, False), (101, True)):
        grammar = bounded(Quick, CPU_S)()
        grammar.spent_s, grammar.taken = CPU_S + 100 * TOKEN_CPU_S, taken
        assert grammar.accept_tokens("call", [1]) == goes_on


@pytest.mark.engine
def test_an_engine_over_several_devices_bounds_grammars_in_the_process_of_its_core(
    monkeypatch,
) -> None:
    """Its workers are elsewhere: the executor, which the core makes, installs the bound before it
    starts them.
    """
    from vllm.config import ParallelConfig
    from vllm.v1.executor.abstract import Executor
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor
    from vllm.v1.structured_output import backend_xgrammar

    made = backend_xgrammar.XgrammarGrammar
    monkeypatch.setattr(backend_xgrammar, "XgrammarGrammar", getattr(made, "unbounded", made))
    started: list[bool] = []
    monkeypatch.setattr(
        MultiprocExecutor,
        "_init_executor",
        lambda self: started.append(hasattr(backend_xgrammar.XgrammarGrammar, "unbounded")),
    )
    parallel = ParallelConfig(distributed_executor_backend=executor(2))
    named: Any = SimpleNamespace(parallel_config=parallel)
    chosen = Executor.get_class(named)
    assert issubclass(chosen, MultiprocExecutor) and chosen.supports_async_scheduling()
    object.__new__(chosen)._init_executor()  # noqa: SLF001 - what its constructor calls
    assert started == [True]
