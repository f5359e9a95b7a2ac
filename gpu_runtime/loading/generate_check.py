"""Whether the engine of this machine generates with a model.

``python -m gpu_runtime.loading.generate_check FOLDER`` starts the engine as a session would and
samples two tokens. It prints one line of JSON, {"tokens"}; else it writes what is wrong on stderr
and ends with 1, or with NO_ENGINE where no engine is installed.
"""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path

from gpu_runtime.errors import RuntimeFault
from gpu_runtime.failures.core_errors import core_input_error
from gpu_runtime.placement import engine_needs_gpu
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import (
    engine_refusal,
    folder_refusal,
    positions_count,
)

NO_ENGINE = 3  # an exit code
TOKENS, CONTEXT = 2, 256  # the second is of a decoding step, which has kernels of its own
CHECK_S = 900.0


async def generate(folder: Path, config: SessionConfig) -> int:
    """The number of tokens that the engine sampled after a prompt of a few. Raises RuntimeFault,
    TimeoutError."""
    from gpu_runtime.engine.arguments import EngineSpec
    from gpu_runtime.engine.vllm_engine import VllmEngine
    from gpu_runtime.interfaces import SamplingOptions

    device = "cuda" if engine_needs_gpu() else "cpu"
    engine = await VllmEngine.start(EngineSpec(str(folder), config, device))
    try:
        async with asyncio.timeout(CHECK_S):
            options = SamplingOptions(max_tokens=TOKENS, min_tokens=TOKENS)
            return sum(
                [
                    len(delta.token_ids_T)
                    async for delta in engine.generate("check", [1, 2, 3], options)
                ]
            )
    finally:
        await engine.close()


def main(folder: Path) -> int:
    """The exit code."""
    if importlib.util.find_spec("vllm") is None:
        return NO_ENGINE
    # imports torch, which only comes with the engine
    from gpu_runtime.weights.dequantise import DequantiseError, in_full

    config = SessionConfig(max_context_length=min(CONTEXT, positions_count(folder) or CONTEXT))
    config = config.model_copy(update={"max_tokens": TOKENS})
    refusal = folder_refusal(folder, config)
    if refusal := refusal or engine_refusal(folder, on_gpu=engine_needs_gpu()):
        sys.stderr.write(f"error: {refusal}\n")
        return 1
    try:
        with in_full(folder) as plain:
            tokens = asyncio.run(generate(plain, config))
    except (RuntimeFault, DequantiseError, TimeoutError) as error:
        why = core_input_error() or str(error) or f"no token after {CHECK_S:.0f} s"
        sys.stderr.write(f"error: the engine does not generate with it: {why}\n")
        return 1
    sys.stdout.write(json.dumps({"tokens": tokens}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
