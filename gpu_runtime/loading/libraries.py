"""What the main process of a runtime on a CPU imports itself, in a thread, before it has a session.

Beside it the fork server imports what engine and trainer need (engine/vllm_process.py). Neither
depends on the base model: a session of any that takes this process finds all of it there, or waits
for the rest.
"""

import asyncio
import logging
import threading
from importlib import import_module

from gpu_runtime.engine.vllm_process import vllm_import
from gpu_runtime.placement import engine_needs_gpu

log = logging.getLogger(__name__)
SERVING = "gpu_runtime.run"  # by name: it stands above this, and imports it
_begun: list[threading.Thread] = []


def libraries_begin() -> None:
    """Start to import; returns at once, and again does nothing. For engines on a CPU alone."""
    if _begun or engine_needs_gpu():
        return
    thread = threading.Thread(target=_import, name="libraries", daemon=True)
    _begun.append(thread)
    thread.start()


async def libraries_wait() -> None:
    """Until what was begun is there; the loop goes on meanwhile. Two threads that import may wait
    for each other.
    """
    for thread in _begun:
        await asyncio.to_thread(thread.join)


def _import() -> None:
    try:
        vllm_import("cpu")
        import vllm.renderers.hf  # noqa: F401 - which vLLM imports with the first tokenizer

        import gpu_runtime.engine.front
        import gpu_runtime.rendering.transformers_tokenizer  # noqa: F401
        from gpu_runtime.native.compiled import kernels_compile

        import_module(SERVING)
        kernels_compile()
    except ImportError as error:  # raised again where it is needed, and told there
        log.warning("not imported before a session: %s", error)
