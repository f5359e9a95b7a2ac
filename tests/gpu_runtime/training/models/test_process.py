"""The many-model trainer in its process: mistakes arrive as exceptions, a kill is named, a state
goes on.
"""

import multiprocessing

import numpy as np
import pytest

from gpu_runtime.errors import TrainerKilled
from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput, LoraConfig
from gpu_runtime.training.models.process import ModelTrainerProcess
from support.model_data import drawn_data
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine


async def test_a_killed_process_is_replaced_and_a_state_goes_on_where_it_was(base, tmp_path):
    rows = []
    trainer = ModelTrainerProcess(
        str(base), SessionConfig(), "cpu", on_progress=lambda: rows.append(1)
    )
    data = drawn_data("cross_entropy")
    try:
        await trainer.ready()
        await trainer.create_model("S:train:0", LoraConfig(4))
        await trainer.model("S:train:0").forward_backward(data, "cross_entropy", {})
        assert rows, "progress is told"
        with pytest.raises(InvalidTrainingInput, match="'nothing' is unknown"):
            await trainer.model("S:train:0").forward(data, "nothing", {})
        await trainer.model("S:train:0").optim_step(AdamParams(learning_rate=1e-2))
        await trainer.model("S:train:0").save_state(tmp_path / "state")
        expected = await trainer.model("S:train:0").forward(data, "cross_entropy", {})

        (process,) = [
            each for each in multiprocessing.active_children() if each.name == "trainer-rank-0"
        ]
        process.kill()
        with pytest.raises(TrainerKilled):
            await trainer.model("S:train:0").forward(data, "cross_entropy", {})
        assert trainer.dead
        await trainer.restart()
        await trainer.create_model("S:train:0", LoraConfig(4))
        await trainer.model("S:train:0").load_state(tmp_path / "state", with_optimizer=True)
        again = await trainer.model("S:train:0").forward(data, "cross_entropy", {})
        assert again.metrics == expected.metrics
        for one, other in zip(again.outputs, expected.outputs, strict=True):
            np.testing.assert_array_equal(one["logprobs"], other["logprobs"])
    finally:
        await trainer.close()
