"""Two programs of the ``tinker`` client on one base: ``trainer`` trains and saves, waits for a line,
and trains on; ``evaluator PATH`` samples what was saved beside the base, and trains an adapter.

Usage: ``tinker_pair.py BASE_MODEL trainer | evaluator PATH``. Each prints JSON, one object a line.
"""

import json
import sys

import tinker
from tinker import types
from tinker_program import datum, sampled

ADAM = types.AdamParams(learning_rate=1e-3)


def train(model: tinker.TrainingClient) -> float:
    model.forward_backward([datum([5, 6, 7, 8])], "cross_entropy").result(timeout=120)
    return model.optim_step(ADAM).result(timeout=120).metrics["grad_norm"]


def main(base_model: str, role: str, path: str = "") -> None:
    with tinker.ServiceClient(user_metadata={"sampling_seeds": "exact"}) as service:
        rank = 8 if role == "trainer" else 64
        model = service.create_lora_training_client(base_model=base_model, rank=rank)
        said = {"model": model.get_info().model_id, "norm": train(model)}
        if role == "trainer":
            said["path"] = model.save_weights_for_sampler("shared").result(timeout=120).path
            print(json.dumps(said), flush=True)
            sys.stdin.readline()
            said["norm"] = train(model)
        else:
            saved = service.create_sampling_client(model_path=path)
            base = service.create_sampling_client(base_model=base_model)
            own = model.save_weights_and_get_sampling_client()
            said["sampled"] = [sampled(each) for each in (saved, base, own, saved)]
        print(json.dumps(said), flush=True)


main(*sys.argv[1:])
