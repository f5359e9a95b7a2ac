"""An engine reads the tokenizer of its grammars with the first of them."""

from types import SimpleNamespace

import pytest

from gpu_runtime.engine.grammars.later import grammars_later

# of what vLLM imports
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_a_tokenizer_is_read_when_a_grammar_first_needs_it_and_once(monkeypatch) -> None:
    from vllm.v1 import structured_output
    from vllm.v1.engine import core

    asked: list[object] = []
    read = lambda model_config: asked.append(model_config) or "the tokenizer"  # noqa: E731
    monkeypatch.setattr(structured_output, "cached_tokenizer_from_config", read)
    # put back after the test
    monkeypatch.setattr(core, "StructuredOutputManager", core.StructuredOutputManager)
    grammars_later()
    config = SimpleNamespace(
        model_config=SimpleNamespace(skip_tokenizer_init=False),
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        structured_outputs_config=SimpleNamespace(
            reasoning_parser="", reasoning_parser_plugin="", enable_in_reasoning=False
        ),
    )
    manager = core.StructuredOutputManager(config)
    assert asked == []
    assert (manager.tokenizer, manager.tokenizer) == ("the tokenizer",) * 2 and asked == [
        config.model_config
    ]
