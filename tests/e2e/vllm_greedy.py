"""``python vllm_greedy.py FOLDER``: vLLM's greedy answers to the prompts on stdin (JSON list), as
JSON on stdout.

A process of its own: vLLM's imports warn, and in the suite a warning is an error.
"""

import asyncio
import json
import sys

from transformers import AutoTokenizer

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.interfaces import SamplingOptions
from tinkerscript.wire.config import SessionConfig


async def main(folder: str, prompts: list[str]) -> list[str]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    engine = await VllmEngine.start(
        EngineSpec(folder, SessionConfig(max_context_length=256), "cpu")
    )
    try:
        answers = []
        for number, prompt in enumerate(prompts):
            messages = [{"role": "user", "content": prompt}]
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=False
            )
            deltas = engine.generate(
                f"call-{number}", ids, SamplingOptions(max_tokens=8, temperature=0.0)
            )
            answers.append("".join([delta.text async for delta in deltas]))
        return answers
    finally:
        await engine.close()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], json.load(sys.stdin)))))
