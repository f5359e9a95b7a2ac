"""What vLLM is told of the engine of a Tinker session, on a CPU and on devices that are made up."""

from dataclasses import replace

import pytest

from gpu_runtime.engine.arguments import EngineSpec, engine_arguments
from gpu_runtime.engine.vllm_process import IN_PROCESS
from gpu_runtime.errors import ModelUnsupported
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.device_memory import OWN_SHARE, SHARED_SHARE


def test_an_engine_leaves_the_trainer_on_its_device_the_rest_of_the_memory() -> None:
    """It never sleeps, so that what it takes is gone for as long as it lives."""
    spec = EngineSpec("m", SessionConfig(), "cuda", adapters=True)
    alone, shared = (engine_arguments(replace(spec, shares_device=each)) for each in (False, True))
    assert alone["gpu_memory_utilization"] == OWN_SHARE
    assert shared["gpu_memory_utilization"] == SHARED_SHARE
    assert not alone["enable_sleep_mode"] and not shared["enable_sleep_mode"]
    assert alone["distributed_executor_backend"] == IN_PROCESS and not alone["enforce_eager"]


def test_a_type_that_the_kernels_of_adapters_have_not_is_refused_by_name() -> None:
    """vLLM's own assertion would end the engine as it starts, again and again."""
    assert (
        engine_arguments(EngineSpec("m", SessionConfig(), "cuda", adapters=True))["dtype"]
        == "bfloat16"
    )
    assert (
        engine_arguments(EngineSpec("m", SessionConfig(dtype="float32"), "cpu", adapters=True))[
            "dtype"
        ]
        == "float32"
    )
    with pytest.raises(ModelUnsupported, match="not in float32: leave dtype at auto"):
        engine_arguments(EngineSpec("m", SessionConfig(dtype="float32"), "cuda", adapters=True))
