"""A real engine returns the experts that its routers chose for each token that it sampled."""

from pathlib import Path

import pytest
import torch

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.training.policy import Policy
from support.model_families import family_make
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PROMPT = tuple(range(5, 25))


async def sampled(engine: VllmEngine, name: str, prompt: tuple[int, ...]) -> tuple[list[int], list]:
    ids: list[int] = []
    rows: list[bytes | None] = []
    options = SamplingOptions(12, ignore_eos=True, for_training=True)
    async for delta in engine.generate(name, prompt, options):
        assert len(delta.experts_T) in (0, len(delta.token_ids_T))
        ids += delta.token_ids_T
        rows += delta.experts_T
    return ids, rows


def chosen(folder: Path, ids: list[int], layers: int) -> list[list[set[int]]]:
    """Of each position and layer the experts that the model's own forward takes."""
    model = Policy.load(str(folder), torch.float32).model
    model.set_attn_implementation("eager")
    taken: list[torch.Tensor] = []
    for module in model.modules():
        if hasattr(module, "experts"):
            module.experts.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[1]))
    with torch.no_grad():
        model(torch.tensor([ids]))
    assert len(taken) == layers
    return [[set(layer[at].tolist()) for layer in taken] for at in range(len(ids))]


@pytest.mark.parametrize(("name", "layers"), [("Qwen3-MoE", 2), ("GLM-4.5", 1), ("GPT-OSS", 2)])
async def test_a_tokens_row_has_what_the_position_before_it_chose(tmp_path, name, layers) -> None:
    """Also where the prompt is in the prefix cache, and of calls side by side."""
    folder = family_make(tiny_model_make(tmp_path / "model"), name)
    engine = await VllmEngine.start(
        EngineSpec(str(folder), SessionConfig(max_context_length=128), "cpu")
    )
    try:
        for number in range(2):
            ids, rows = await sampled(engine, f"call-{number}", PROMPT)
            expected = chosen(folder, [*PROMPT, *ids], layers)
            assert len(rows) == len(ids) == 12
            for at, row in enumerate(rows):
                own = expected[len(PROMPT) + at - 1]
                assert [set(row[2 * i : 2 * i + 2]) for i in range(layers)] == own
        options = SamplingOptions(2)  # of a call that is not trained
        assert {d.experts_T async for d in engine.generate("eval", PROMPT, options)} == {()}
    finally:
        await engine.close()
