"""A quantised folder through a session: in full by what its start runs, rehearsed, trained, handed
over and exported by the real engine and the real trainer.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.families import gap, handed_gap, sampled, steps

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.loading.base_folder import dequantised
from gpu_runtime.loading.rehearsal import rehearse
from gpu_runtime.training.ranks import TrainerRanks
from support.family_checks import weights_bits
from support.family_outcomes import GAP, ROUNDED
from support.quantised_folders import compressed_make, fp8_make, mxfp4_make
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

CASES = [
    (fp8_make, "float32", GAP),
    (fp8_make, "bfloat16", ROUNDED),
    # Rounded in bfloat16, a router with random weights chooses others of its four experts.
    (mxfp4_make, "float32", GAP),
    (compressed_make, "float32", GAP),
    (partial(compressed_make, scheme="FP8_DYNAMIC"), "bfloat16", ROUNDED),
]


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("make", "dtype", "most"), CASES)
async def test_a_quantised_folder_is_served_as_it_is_trained_and_exported_in_full(
    tmp_path: Path, make: Callable[[Path], Path], dtype: Any, most: float
) -> None:
    base, folder, out = (
        make(tiny_model_make(tmp_path / "base")),
        tmp_path / "full",
        tmp_path / "out",
    )
    folder.mkdir()
    await dequantised(base, folder)
    config = SessionConfig(max_context_length=128, learning_rate=1e-3, dtype=dtype)
    trainer, handover = TrainerRanks(str(folder), config, "cpu"), tmp_path / "handover"
    try:
        engine = await VllmEngine.start(EngineSpec(str(folder), config, "cpu"))
        try:
            await trainer.ready()
            await rehearse(engine, trainer, folder, handover)
            samples, gaps = await sampled(engine), [await gap(engine, trainer)]
            for version in (1, 2):
                await steps(trainer, samples, range(version, version + 1))
                gaps.append(await handed_gap(engine, trainer, handover, version))
        finally:
            await engine.close()
        await trainer.export_model(out)
        before, after = weights_bits(folder), weights_bits(out)
        assert before.keys() == after.keys()
        assert all(after[name] != before[name] for name in before)
        assert {str(kind) for kind, _ in after.values()} == {f"torch.{dtype}"}
        assert "quantization_config" not in json.loads((out / "config.json").read_text())
        engine = await VllmEngine.start(EngineSpec(str(out), config, "cpu"))
        try:
            gaps.append(await gap(engine, trainer))
        finally:
            await engine.close()
    finally:
        await trainer.close()
    assert max(gaps) < most
