"""Which of vLLM's two model runners an engine has. What is ours inside its worker is written for
the first of them.

vLLM 0.32 takes the second ("V2", ``vllm/v1/worker/gpu/``) wherever Triton runs, so on every GPU,
and the first ("V1", ``vllm/v1/worker/gpu_model_runner.py``) on CPUs. The two have other methods and
another sampler: of V2 there is no batch to read requests from, no method that scores a prompt, and
none that samples apart from the grammar's mask. So an engine of ours asks for V1 everywhere, by
vLLM's own variable, and what the tests prove on a CPU is what runs on a GPU. An environment that
asks for the other is refused before anything is started, and a worker that has it all the same
after.
"""

import os
from collections.abc import Callable
from typing import Any

from gpu_runtime.engine.prompt_rows import SCORING
from gpu_runtime.engine.raw_logprobs import SAMPLE, SAMPLER
from gpu_runtime.errors import EngineUnsupported

SWITCH, FIRST = "VLLM_USE_V2_MODEL_RUNNER", "0"
METHODS = (SAMPLE, SAMPLER, SCORING, "reload_weights", "get_model")  # that ours replace or call


def switch_verify() -> None:
    """Raises EngineUnsupported where the environment asks for another runner than ``FIRST``."""
    if (asked := os.environ[SWITCH]) != FIRST:
        raise EngineUnsupported(
            f"{SWITCH} is {asked!r}, and the engine is written for vLLM's first model runner: "
            "unset it"
        )


def runner_refusal(runner: Any) -> str:
    """Why what is ours does not work in a worker with this runner; "" where it does."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    kind = f"{type(runner).__module__}.{type(runner).__qualname__}"
    if not isinstance(runner, GPUModelRunner):
        return (
            f"its worker has {kind}, and not vLLM's first model runner, which {SWITCH}={FIRST} "
            "asks for"
        )
    if missing := [name for name in METHODS if not hasattr(runner, name)]:
        return f"{kind} has no {', '.join(missing)}: this is not the vLLM of requirements/cpu.txt"
    return ""


def models_prepare(prepare: Callable[[Any], None]) -> None:
    """Have every runner on a GPU call ``prepare`` with itself as soon as its model is loaded, before
    any graph is captured.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    load: Callable[..., None] = GPUModelRunner.load_model

    def loaded(runner: Any, *arguments: Any, **options: Any) -> None:
        load(runner, *arguments, **options)
        prepare(runner)

    setattr(GPUModelRunner, "load_model", loaded)  # noqa: B010 - mypy takes no assignment to it
