"""Two LoRA models of the ``tinker`` client: three steps of one, one of the other, and a saved state
and sampler.

Usage: ``tinker_two_models.py BASE_MODEL``, with TINKER_BASE_URL and TINKER_API_KEY set. Prints
"trained" and ends after the next line of its input.
"""

import sys

import tinker
from tinker import types
from tinker_steps import datum


def main(base_model: str) -> None:
    with tinker.ServiceClient(user_metadata={"recipe": "two models"}) as service:
        first = service.create_lora_training_client(base_model=base_model, rank=8, seed=1)
        second = service.create_lora_training_client(
            base_model=base_model, rank=4, seed=2, train_mlp=False
        )
        for training, rate, steps in ((first, 1e-4, 3), (second, 2e-3, 1)):
            for number in range(steps):
                training.forward_backward(
                    [datum(number), datum(number + 1)], "cross_entropy"
                ).result(timeout=120)
                training.optim_step(types.AdamParams(learning_rate=rate)).result(timeout=120)
        first.save_state("end").result(timeout=120)
        second.save_weights_for_sampler("end").result(timeout=120)
        print("trained", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
