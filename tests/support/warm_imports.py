"""What the trainer's ranks and vLLM's engine import, imported before they are forked: see
gpu_runtime/conftest.py.
"""

from gpu_runtime.engine.vllm_process import child_variables, environment_set, started_with

environment_set("cpu")
with started_with(child_variables("cpu", ())):  # torch reads some of them when it is imported
    import vllm.v1.engine.core
    import vllm.v1.worker.cpu_worker  # noqa: F401

    import gpu_runtime.training.trainer  # noqa: F401
