"""Weights leave the trainer's process on the device: another process reads the very bits that an
export writes.
"""

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.cuda_ipc import handles_read
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.mark.parametrize("stage", [2, 3])
async def test_handles_open_to_the_weights_that_an_export_writes(
    tiny_folder, tmp_path, stage
) -> None:
    trainer = TrainerRanks(str(tiny_folder), SessionConfig(zero_stage=stage), "cuda")
    try:
        await trainer.publish(tmp_path / "handover")
        await trainer.export_model(tmp_path / "model")
        for _ in range(3):  # as several engines do, at several hand-overs
            await trainer.publish(tmp_path / "handover")
            dict(handles_read(tmp_path / "handover"))
        read = {
            name: (tensor.is_cuda, tensor.cpu())
            for name, tensor in handles_read(tmp_path / "handover")
        }
    finally:
        await trainer.close()
    exported = load_file(tmp_path / "model" / "model.safetensors")
    assert all(on_device for on_device, _ in read.values())
    assert all(torch.equal(read[name][1], tensor) for name, tensor in exported.items())
