"""What the real engine returns for one prompt under many sampling options."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import RequestRefused
from gpu_runtime.interfaces import SamplingOptions
from tinkerscript.wire.config import SessionConfig

PROMPT_IDS = (0, 76, 68, 71, 71, 74, 1, 2)


async def sample_all(
    folder: str, requests: Sequence[dict[str, Any]], together: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Of ``requests`` one after the other, then of those ``together`` in one batch."""
    engine = await VllmEngine.start(
        EngineSpec(folder, SessionConfig(max_context_length=512), "cpu")
    )
    try:
        alone = [await answer(engine, f"call-{n}", request) for n, request in enumerate(requests)]
        asked = [answer(engine, f"beside-{n}", request) for n, request in enumerate(together)]
        return [*alone, *await asyncio.gather(*asked)]
    finally:
        await engine.close()


async def answer(engine: VllmEngine, name: str, request: dict[str, Any]) -> dict[str, Any]:
    text, ids, logprobs = "", [], []
    of_prompt: list[dict[int, float]] = []
    allowed: list[bytes | None] = []
    raw: list[float] = []
    top: list[dict[int, float]] = []
    try:
        async for delta in engine.generate(name, PROMPT_IDS, SamplingOptions(**request)):
            of_prompt += delta.prompt_logprobs_P
            allowed += delta.allowed_T
            raw += delta.raw_logprobs_T
            top += delta.top_logprobs_T
            text, ids, logprobs = (
                text + delta.text,
                [*ids, *delta.token_ids_T],
                [*logprobs, *delta.logprobs_T],
            )
    except RequestRefused as error:
        return {"refused": str(error)}
    of_tokens = {"token_ids": ids, "logprobs": logprobs, "raw_logprobs": raw, "allowed": allowed}
    return {"text": text, "prompt_logprobs": of_prompt, "top_logprobs": top} | of_tokens
