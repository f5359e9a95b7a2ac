"""``python vllm_reads.py FOLDER``: what plain vLLM makes of a model's folder, as JSON on stdout.

On stdin: the texts and the messages to read. Ids of each text, the conversation as the template
writes it, the base of the rotary positions, and the log-probability of each of its tokens.
"""

import json
import os
import sys
from typing import Any

os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCH_COMPILE_DISABLE": "1",
}  # fmt: skip


def main(folder: str, asked: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder, dtype="float32", enforce_eager=True, max_model_len=256,
        generation_config="vllm", seed=0,
    )  # fmt: skip
    tokenizer = llm.get_tokenizer()
    text = tokenizer.apply_chat_template(
        asked["messages"], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer.encode(text, add_special_tokens=False)
    options = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    [answer] = llm.generate({"prompt_token_ids": ids}, options, use_tqdm=False)
    places = list(zip(ids, answer.prompt_logprobs, strict=True))[1:]
    rope = llm.llm_engine.vllm_config.model_config.hf_text_config.rope_parameters
    return {
        "ids": [tokenizer.encode(each, add_special_tokens=False) for each in asked["texts"]],
        "text": text,
        "rope": rope,
        "logprobs": [found[token].logprob for token, found in places],
    }


if __name__ == "__main__":
    json.dump(main(sys.argv[1], json.load(sys.stdin)), sys.stdout)
