"""Random weights are handed to a real engine, and its log-probabilities compared with those of
transformers.
"""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, MistralConfig, Qwen2Config, Qwen3Config

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.weights.shared_file import WeightFile
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

PROMPTS = [(5, 9, 30, 41), (60, 61, 62), tuple(range(3, 80))]
KEPT = [
    *(
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
    ),
    *(
        "num_key_value_heads",
        "max_position_embeddings",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
    ),
]
# Qwen2 has biases, and here a head of its own; Qwen3 has norms of queries and keys.
KINDS = {
    "qwen2": (Qwen2Config, False),
    "qwen3": (Qwen3Config, True),
    "mistral": (MistralConfig, True),
}


def config_make(folder: Path, kind: str):
    """A tiny model of an architecture in ``folder``; its config."""
    config = AutoConfig.from_pretrained(tiny_model_make(folder))
    if kind in KINDS:
        make, tied = KINDS[kind]
        config = make(**{name: getattr(config, name) for name in KEPT}, tie_word_embeddings=tied)
    model_make(config, 1).save_pretrained(folder)
    return config


def model_make(config, seed: int):
    """Every parameter random, biases and norms too: one that is left behind shows."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


async def hand_over_twice(kind: str, folder: Path) -> tuple[list[str], list[float]]:
    """``take_weights``' results, and the largest difference of a log-probability before them and
    after each.
    """
    config = config_make(folder / "model", kind)
    ways: list[str] = []
    gaps: list[float] = []
    engine = await VllmEngine.start(
        EngineSpec(
            str(folder / "model"), SessionConfig(max_context_length=128, max_tokens=8), "cpu"
        )
    )
    try:
        file, first = None, model_make(config, 1)
        gaps.append(
            max([await gap(engine, first, prompt, f"0-{n}") for n, prompt in enumerate(PROMPTS)])
        )
        for version, seed in enumerate((2, 3), start=1):
            model = model_make(config, seed)
            weights = dict(model.named_parameters())
            file = file or WeightFile(
                folder / "handover", {n: p.shape for n, p in weights.items()}, torch.float32
            )
            for name, parameter in weights.items():
                file.write(name, parameter)
            ways += await engine.llm.collective_rpc("take_weights", args=(str(file.folder),))
            # as a session does it, and again the same weights
            await engine.load_weights(file.folder, version)
            found = [
                await gap(engine, model, prompt, f"{version}-{n}")
                for n, prompt in enumerate(PROMPTS)
            ]
            gaps.append(max(found))
    finally:
        await engine.close()
    return ways, gaps


async def gap(engine: VllmEngine, model, prompt: tuple[int, ...], request_id: str) -> float:
    """The largest difference of a log-probability of one answer."""
    options = SamplingOptions(max_tokens=8, seed=1)
    deltas = [delta async for delta in engine.generate(request_id, prompt, options)]
    ids = [token for delta in deltas for token in delta.token_ids_T]
    measured = torch.tensor([logprob for delta in deltas for logprob in delta.logprobs_T])
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    return (measured - expected).abs().max().item()
