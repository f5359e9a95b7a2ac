"""What the real engine returns for one prompt under many sampling options."""

from typing import Any

from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import RequestRefused
from gpu_runtime.interfaces import SamplingOptions
from tinkerscript.wire.config import SessionConfig

PROMPT_IDS = (0, 76, 68, 71, 71, 74, 1, 2)


async def sample_all(folder: str, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    engine = await VllmEngine.start(folder, SessionConfig(max_context_length=512), "cpu")
    try:
        return [await answer(engine, f"call-{n}", request) for n, request in enumerate(requests)]
    finally:
        await engine.close()


async def answer(engine: VllmEngine, name: str, request: dict[str, Any]) -> dict[str, Any]:
    text, ids, logprobs = "", [], []
    of_prompt: list[dict[int, float]] = []
    allowed: list[bytes | None] = []
    try:
        async for delta in engine.generate(name, PROMPT_IDS, SamplingOptions(**request)):
            of_prompt += delta.prompt_logprobs_P
            allowed += delta.allowed_T
            text, ids, logprobs = text + delta.text, [*ids, *delta.token_ids_T], [*logprobs, *delta.logprobs_T]
    except RequestRefused as error:
        return {"refused": str(error)}
    return {"text": text, "token_ids": ids, "logprobs": logprobs, "prompt_logprobs": of_prompt, "allowed": allowed}
