"""Engine and trainer on one CUDA device: they agree on log-probabilities after every hand-over, and
rewards rise.
"""

from importlib.util import find_spec

import pytest
from torch import cuda
from transformers import AutoTokenizer

from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.placement import engine_needs_gpu
from support.engine_loop import loop_open
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

# vLLM is imported into this process, and its imports warn.
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        find_spec("vllm") is None, reason="vLLM is not installed: there is no engine to test"
    ),
    pytest.mark.skipif(
        cuda.is_available() and not engine_needs_gpu(),
        reason="vLLM is its build for CPUs: it has no engine for a device",
    ),
]
TASKS = ("ab", "cd", "ef", "gh")
MAX_TOKENS = 8


def prompts_of(folder) -> list[list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [[{"role": "user", "content": f"Say {task}."}] for task in TASKS]
    return [
        tokenizer.apply_chat_template(m, add_generation_prompt=True, return_dict=False)
        for m in messages
    ]


def share_of_vowels(text: str) -> float:
    return sum(letter in "aeiou" for letter in text) / MAX_TOKENS


def config(**changes) -> SessionConfig:
    defaults = {
        "grpo_n": 8,
        "learning_rate": 1e-3,
        "max_context_length": 256,
        "max_tokens": MAX_TOKENS,
    }
    return SessionConfig(**(defaults | changes))


# k3 of the engine against the trainer, mean over tokens: about half the mean square of the
# difference of log-probabilities. fp32 on a GPU sums in another order than on a CPU; bf16 has 8
# bits.
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-6), ("bfloat16", 2e-3)])
async def test_log_probabilities_agree_before_and_after_every_hand_over(
    tiny_folder, record_property, device, dtype, most
):
    gaps = []
    async with loop_open(str(tiny_folder), config(dtype=dtype), device) as loop:
        for step in range(1, 4):
            samples, _ = await loop.rollout(
                prompts_of(tiny_folder), SamplingOptions(MAX_TOKENS), share_of_vowels
            )
            gaps.append((await loop.train(samples, step))["kl_engine"])
            await loop.hand_over(step)
    record_property(f"engine against trainer, {dtype}, k3 in nats", max(gaps))
    assert min(gaps) >= 0 and max(gaps) < most


async def test_raw_log_probabilities_are_those_of_the_same_tokens_as_a_prompt(
    tiny_folder, record_property, device
):
    """Which the engine scores at temperature 1 and over all ids; and a GPU's worker takes what adds
    them.
    """
    options = SamplingOptions(MAX_TOKENS, temperature=0.7, min_tokens=2, for_training=True)
    async with loop_open(str(tiny_folder), config(dtype="float32"), device) as loop:
        gaps = []
        for number, prompt in enumerate(prompts_of(tiny_folder)):
            sampled = [
                delta async for delta in loop.engine.generate(f"sampled {number}", prompt, options)
            ]
            ids = [token for delta in sampled for token in delta.token_ids_T]
            raw_T = [logprob for delta in sampled for logprob in delta.raw_logprobs_T]
            again = SamplingOptions(1, prompt_logprobs=0)
            scored = [
                delta
                async for delta in loop.engine.generate(f"scored {number}", [*prompt, *ids], again)
            ]
            rows_T = scored[0].prompt_logprobs_P[len(prompt) :]
            assert len(raw_T) == len(rows_T) == len(ids)
            gaps += [
                abs(raw - row[token]) for raw, row, token in zip(raw_T, rows_T, ids, strict=True)
            ]
            assert raw_T != [logprob for delta in sampled for logprob in delta.logprobs_T]
    record_property("raw log-probability against the same token in a prompt, nats", max(gaps))
    assert max(gaps) < 1e-3


async def test_the_reward_rises(tmp_path):
    folder = tiny_model_make(tmp_path / "model")
    rewards = []
    async with loop_open(str(folder), config(grpo_n=16), "cuda") as loop:
        for step in range(1, 31):
            samples, reward = await loop.rollout(
                prompts_of(folder), SamplingOptions(MAX_TOKENS), share_of_vowels
            )
            rewards.append(reward)
            await loop.train(samples, step)
            await loop.hand_over(step)
    assert sum(rewards[-5:]) / 5 > 2 * sum(rewards[:5]) / 5, rewards
