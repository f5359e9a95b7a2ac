"""Twelve steps of the ``tinker`` client, two in flight at a time, with a line after each; at the
end a saved state.

Usage: ``tinker_steps.py BASE_MODEL``, with TINKER_BASE_URL and TINKER_API_KEY set. Ends with the
model's id.
"""

import sys

import numpy as np
import tinker
from tinker import types

STEPS = 12


def datum(number: int) -> types.Datum:
    tokens = np.array([5, 6, 7 + number % 5, 8], dtype=np.int64)
    inputs = {
        "target_tokens": types.TensorData.from_numpy(tokens[1:]),
        "weights": types.TensorData.from_numpy(np.ones(3, dtype=np.float32)),
    }
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1].tolist()), loss_fn_inputs=inputs
    )


def main(base_model: str) -> None:
    with tinker.ServiceClient() as service:
        training = service.create_lora_training_client(base_model=base_model, rank=8, seed=1)
        waiting = []
        for number in range(STEPS):
            waiting.append(
                training.forward_backward([datum(number), datum(number + 1)], "cross_entropy")
            )
            waiting.append(training.optim_step(types.AdamParams(learning_rate=1e-2 / (1 + number))))
            while len(waiting) > 4:
                waiting.pop(0).result(timeout=120)
            print(f"step {number}", flush=True)
        for each in waiting:
            each.result(timeout=120)
        training.save_state("end").result(timeout=120)
        print(training.get_info().model_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
