"""vLLM's front of an engine, whose tokenizer is read while its processes load the model and not
before they start.

vLLM makes the front's parts one after another, the processes last. To read a tokenizer, and to copy
it as often as vLLM does, takes about as long as to load a small model.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from types import ModuleType, SimpleNamespace
from typing import Any

from vllm.config import VllmConfig
from vllm.transformers_utils.config import maybe_register_config_serialize_by_value
from vllm.v1.engine import async_llm
from vllm.v1.engine.core_client import EngineCoreClient
from vllm.v1.executor import Executor


def front_start(config: VllmConfig, *, keeps_times: bool) -> async_llm.AsyncLLM:
    """Return once the engine's processes have loaded the model. Raises RuntimeError; ValueError and
    OSError for a tokenizer that vLLM does not take.
    """
    kind = Executor.get_class(config)
    # as vLLM does, before processes are given the configuration
    maybe_register_config_serialize_by_value()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer") as reader:
        # vLLM keeps in a configuration what it has found out, and this one is pickled meanwhile.
        reading = reader.submit(async_llm.renderer_from_config, deepcopy(config))
        # In this thread, whose signals the processes inherit. What vLLM would warm up beside them
        # is of images.
        core = EngineCoreClient.make_async_mp_client(config, kind, keeps_times)
    try:
        renderer = reading.result()
        given = SimpleNamespace(make_async_mp_client=lambda **_: core)
        with _replaced(async_llm, renderer_from_config=lambda _: renderer, EngineCoreClient=given):
            return async_llm.AsyncLLM.from_vllm_config(config, disable_log_stats=not keeps_times)
    except BaseException:
        core.shutdown(timeout=0.0)
        raise


@contextmanager
def _replaced(module: ModuleType, **parts: Any) -> Iterator[None]:
    """The module's names are these inside the block. Engines start one after another."""
    before = {name: vars(module)[name] for name in parts}
    vars(module).update(parts)
    try:
        yield
    finally:
        vars(module).update(before)
