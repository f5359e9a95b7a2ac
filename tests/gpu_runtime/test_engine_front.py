"""The front of an engine reads its tokenizer while the engine's processes load, and ends them where
it cannot.
"""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

# What vLLM imports warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TIMEOUT_S = 30.0


class Core:
    """Processes that load for as long as the tokenizer is not being read, or the other way
    round.
    """

    def __init__(self) -> None:
        self.begun, self.reads, self.ended = threading.Event(), threading.Event(), threading.Event()

    def start(self, *_: Any, **__: Any) -> "Core":
        self.begun.set()
        assert self.reads.wait(TIMEOUT_S)
        return self

    def read(self, _: Any) -> str:
        self.reads.set()
        assert self.begun.wait(TIMEOUT_S)
        return "tokenizer"

    def shutdown(self, timeout: float) -> None:
        assert timeout == 0.0
        self.ended.set()


@pytest.fixture
def core(monkeypatch) -> Core:
    from gpu_runtime.engine import front

    core = Core()
    monkeypatch.setattr(front.Executor, "get_class", lambda config: None)
    monkeypatch.setattr(front.EngineCoreClient, "make_async_mp_client", core.start)
    monkeypatch.setattr(front.async_llm, "renderer_from_config", core.read)

    def made(config: Any, *, disable_log_stats: bool) -> Any:
        """What vLLM's own front does, in its order."""
        renderer = front.async_llm.renderer_from_config(config)
        return SimpleNamespace(
            renderer=renderer, engine_core=front.async_llm.EngineCoreClient.make_async_mp_client()
        )

    monkeypatch.setattr(front.async_llm, "AsyncLLM", SimpleNamespace(from_vllm_config=made))
    return core


def test_the_tokenizer_is_read_while_the_processes_load(core: Core) -> None:
    from gpu_runtime.engine.front import EngineCoreClient, async_llm, front_start

    llm: Any = front_start(SimpleNamespace(), keeps_times=False)  # type: ignore[arg-type]
    assert (llm.renderer, llm.engine_core) == ("tokenizer", core)
    assert async_llm.EngineCoreClient is EngineCoreClient, "and vLLM's own parts are its own again"
    assert not core.ended.is_set()


def test_what_the_reading_writes_is_not_in_the_configuration_that_the_processes_get(
    core: Core, monkeypatch
) -> None:
    """vLLM keeps in it what it has found out; a dictionary that grows while it is pickled ends the
    start.
    """
    from gpu_runtime.engine import front

    config = SimpleNamespace(model_config=SimpleNamespace())
    given: list[Any] = []

    def read(own: Any) -> str:
        own.model_config.found_out = True
        return core.read(own)

    def start(its: Any, *_: Any) -> Core:
        started = core.start()
        given.append((its, hasattr(its.model_config, "found_out")))
        return started

    monkeypatch.setattr(front.async_llm, "renderer_from_config", read)
    monkeypatch.setattr(front.EngineCoreClient, "make_async_mp_client", start)
    front.front_start(config, keeps_times=False)  # type: ignore[arg-type]
    assert given == [(config, False)]


def test_processes_whose_tokenizer_cannot_be_read_are_ended(core: Core, monkeypatch) -> None:
    from gpu_runtime.engine import front

    def broken(_: Any) -> None:
        core.read(_)
        raise OSError("no tokenizer here")

    monkeypatch.setattr(front.async_llm, "renderer_from_config", broken)
    with pytest.raises(OSError, match="no tokenizer here"):
        front.front_start(SimpleNamespace(), keeps_times=False)  # type: ignore[arg-type]
    assert core.ended.is_set()
