"""An engine that gets no memory back beside the trainer ends as a fault with both numbers, which no
restart repeats."""

import sys
from types import SimpleNamespace

import pytest

from gpu_runtime.engine import vllm_engine, vllm_process
from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import (
    DeviceMemoryShort,
    EngineDead,
    FinalFault,
    RuntimeFault,
    WeightsRefused,
)
from tinkerscript.processes.nvml import GpuReading
from tinkerscript.wire.config import SessionConfig

GIB = 1 << 30


class EngineDeadError(Exception):
    """In the place of vLLM's, whose import takes seconds."""


SHORT = "Call to {} method failed: CUDA Error: out of memory at cumem_allocator.cpp:119"


class Llm:
    """In the place of vLLM: each of its calls may fail."""

    def __init__(self, **fails: Exception) -> None:
        self.vllm_config = None
        self.fails = fails
        self.engine_core = SimpleNamespace(
            pause_scheduler_async=self._call("pause"),
            resources=SimpleNamespace(engine_manager=None),
        )
        for name in ("sleep", "wake_up", "update_weight_version", "resume_generation"):
            setattr(self, name, self._call(name))

    def _call(self, name: str):
        async def call(*_args: object, **_options: object) -> None:
            if error := self.fails.get(name):
                raise error

        return call

    async def collective_rpc(self, name: str, **_options: object) -> list[str]:
        await self._call(name)()
        return ["refused: no such weight"] if "refused" in self.fails else ["taken"]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch):
    """``engine(wake_up=Exception(...))``: one on a GPU of 140 GiB, of which 40 are free."""
    gpu = GpuReading("H200", 0.5, 100 * GIB, 140 * GIB, None)
    monkeypatch.setattr(vllm_process, "nvml_open", lambda: SimpleNamespace(sample=lambda: [gpu]))
    monkeypatch.setitem(
        sys.modules, "vllm.v1.engine.exceptions", SimpleNamespace(EngineDeadError=EngineDeadError)
    )
    monkeypatch.setattr(vllm_process, "ENDS_S", 0.0)
    for name in ("GrammarCompiler", "GrammarTrial"):
        monkeypatch.setattr(vllm_engine, name, lambda _: None)
    return lambda **fails: VllmEngine(
        Llm(**fails),
        EngineSpec("model", SessionConfig(), "cuda", shares_device=True, memory_share=0.5),
    )


async def test_a_wake_without_memory_is_final_and_has_both_numbers(engine) -> None:
    with pytest.raises(DeviceMemoryShort) as short:
        async with Replicas([engine(wake_up=Exception(SHORT.format("wake_up")))]).device_lent():
            """The step."""
    assert isinstance(short.value, FinalFault) and short.value.code == "out_of_memory"
    told = "after a step; H200 has 140.0 GiB, of which the engine takes 70.0 GiB, and 40.0 GiB are free"
    assert str(short.value).endswith(told) and "offload_optimizer" in short.value.hint


@pytest.mark.parametrize("name", ["sleep", "take_weights", "pause"])
async def test_so_is_every_other_turn_on_the_device(engine, name: str, tmp_path) -> None:
    failing = engine(**{name: Exception(SHORT.format(name))})
    with pytest.raises(DeviceMemoryShort):
        await (failing.sleep() if name == "sleep" else failing.load_weights(tmp_path, 1))


@pytest.mark.parametrize(
    "error", [Exception("Call to wake_up method failed: lost"), EngineDeadError(), TimeoutError()]
)
async def test_a_failure_of_another_kind_is_one_that_a_restart_may_mend(
    engine, error: Exception
) -> None:
    with pytest.raises(EngineDead, match="taking its device back after a step") as dead:
        await engine(wake_up=error).wake()
    assert not isinstance(dead.value, FinalFault)


async def test_weights_that_are_refused_stay_refused(engine, tmp_path) -> None:
    with pytest.raises(WeightsRefused, match="no such weight") as refused:
        await engine(refused=Exception()).load_weights(tmp_path, 1)
    assert isinstance(refused.value, RuntimeFault)
