"""The engine has the model runner of vLLM's that ours inside its worker is written for, or it does
not start.
"""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.engine import arguments, vllm_process
from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.model_runner import FIRST, METHODS, SWITCH, runner_refusal
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineUnsupported
from tinkerscript.wire.config import SessionConfig

# What vLLM imports warns of its own future.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def runners() -> tuple[Any, Any]:
    """One of each, as no worker made it: to make V2 takes a GPU."""
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner as Second
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner as First

    return object.__new__(First), object.__new__(Second)


def test_the_first_runner_is_taken_and_the_second_refused_by_name() -> None:
    first, second = runners()
    assert runner_refusal(first) == ""
    refusal = runner_refusal(second)
    assert (
        "vllm.v1.worker.gpu.model_runner.GPUModelRunner" in refusal
        and f"{SWITCH}={FIRST}" in refusal
    )


def test_what_ours_replaces_is_not_in_the_second_runner() -> None:
    """Else the refusal would stand for nothing."""
    _, second = runners()
    assert [name for name in METHODS if not hasattr(second, name)] == [
        "_sample",
        "_get_prompt_logprobs_dict",
    ]


def test_a_runner_of_another_version_is_refused_by_what_it_lacks() -> None:
    first, _ = runners()

    class Renamed(type(first)):
        @property
        def _sample(self) -> Any:
            raise AttributeError

    assert "has no _sample" in runner_refusal(object.__new__(Renamed))


def test_vllm_chooses_by_the_variable_that_the_engine_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where Triton runs, as every one with a GPU."""
    from vllm.config import VllmConfig
    from vllm.config import vllm as module

    monkeypatch.setattr(module, "HAS_TRITON", True)
    asked: Any = SimpleNamespace(
        attention_config=SimpleNamespace(hisparse_config=None), watermark_config=None,
        _get_v2_model_runner_unsupported_features=list,
    )  # fmt: skip
    choice = VllmConfig.use_v2_model_runner
    monkeypatch.delenv(SWITCH, raising=False)
    assert choice.fget(asked) is True
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", "/tmp")
    with monkeypatch.context() as kept:
        kept.setattr(os, "environ", dict(os.environ))
        vllm_process.environment_set("cuda")
        chosen = os.environ[SWITCH]
    monkeypatch.setenv(SWITCH, chosen)
    assert choice.fget(asked) is False


async def test_an_environment_that_asks_for_the_second_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(arguments, "_front", lambda _: pytest.fail("it was started"))
    with pytest.raises(EngineUnsupported, match=f"{SWITCH} is '1'.*unset it"):
        await VllmEngine.start(EngineSpec("model", SessionConfig(), "cpu"))


class StartedLlm:
    """As much of vLLM's front as an engine needs until it knows its workers; they have
    ``runner``.
    """

    output_handler = None

    def __init__(self, runner: Any) -> None:
        self.runner, self.asked, self.ends = runner, list[str](), 0
        self.vllm_config = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 100))

    async def collective_rpc(self, name: str, args: tuple[None]) -> list[str]:
        """As of two workers, of which one is right."""
        self.asked.append(name)
        return ["", runner_refusal(self.runner)]

    def shutdown(self, timeout: float | None = None) -> None:
        self.ends += 1


async def test_an_engine_whose_worker_has_the_second_is_ended_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llm = StartedLlm(runners()[1])
    monkeypatch.setattr(arguments, "engine_config", lambda *_, **__: None)
    monkeypatch.setattr(arguments, "_front", lambda _: llm)
    with pytest.raises(EngineUnsupported, match="another part than it is written for") as refused:
        await VllmEngine.start(EngineSpec("model", SessionConfig(), "cpu"))
    assert refused.value.code == "engine_unsupported" and "variables" in refused.value.hint
    assert llm.ends == 1 and llm.asked == ["worker_prepare"]
