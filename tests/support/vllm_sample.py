"""``python vllm_sample.py FOLDER``: vLLM's answers to the sampling options on stdin (JSON list), as JSON on stdout.

A process of its own: vLLM's imports warn, and in the suite a warning is an error.
"""

import asyncio
import json
import sys
from typing import Any

from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import RequestRefused
from gpu_runtime.interfaces import SamplingOptions
from tinkerscript.wire.config import SessionConfig

PROMPT_IDS = (0, 76, 68, 71, 71, 74, 1, 2)


async def main(folder: str, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    engine = await VllmEngine.start(folder, SessionConfig(max_context_length=512), "cpu")
    try:
        return [await answer(engine, f"call-{n}", request) for n, request in enumerate(requests)]
    finally:
        await engine.close()


async def answer(engine: VllmEngine, name: str, request: dict[str, Any]) -> dict[str, Any]:
    text, ids, logprobs = "", [], []
    of_prompt: list[dict[int, float]] = []
    request["logit_bias"] = {
        int(token): bias for token, bias in request.get("logit_bias", {}).items()
    }  # JSON has texts
    try:
        async for delta in engine.generate(name, PROMPT_IDS, SamplingOptions(**request)):
            of_prompt += delta.prompt_logprobs_P
            text, ids, logprobs = text + delta.text, [*ids, *delta.token_ids_T], [*logprobs, *delta.logprobs_T]
    except RequestRefused as error:
        return {"refused": str(error)}
    return {"text": text, "token_ids": ids, "logprobs": logprobs, "prompt_logprobs": of_prompt}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], json.load(sys.stdin)))))
