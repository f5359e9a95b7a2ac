"""Sends each case of a file to each server through the ``tinker`` client, in an environment that
has nothing of ours.

Usage: ``client_losses.py CASES.json TORCH``, with TINKER_API_KEY set. The file has ``servers``
([url, rank] pairs) and ``cases`` ([name, loss, settings, data]; a datum is [tokens, tensors]). Of
every case the gradient is saved and then forgotten. Prints {url: {name: what came back}}. TORCH is
a folder of packages with torch, which the client needs for the loss ``custom``: it is traced and
computed here.
"""

import json
import math
import sys

if __name__ == "__main__":
    sys.path.append(sys.argv[2])  # before the client looks for torch

import numpy as np
import tinker
from tinker import types


def tensor(values: dict) -> types.TensorData:
    """A dense tensor, or one in compressed sparse rows, as clients send what is mostly zero."""
    array = np.array(values["data"], dtype=values["dtype"])
    if not values["sparse"]:
        return types.TensorData.from_numpy(array)
    rows, columns = np.nonzero(array)
    crow = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(array)))])
    return types.TensorData(
        data=array[rows, columns], dtype=values["dtype"], shape=list(array.shape),
        sparse_crow_indices=crow.tolist(), sparse_col_indices=columns.tolist(),
    )  # fmt: skip


def read(data: list) -> list[types.Datum]:
    return [
        types.Datum(
            model_input=types.ModelInput.from_ints(tokens),
            loss_fn_inputs={name: tensor(values) for name, values in tensors.items()},
        )
        for tokens, tensors in data
    ]


def own_loss(logprobs, weights):
    """Cross-entropy once more, as a loss of the client's own."""
    loss = -(logprobs * weights).sum()
    return loss, {"custom/own:sum": loss}


def run(url: str, rank: int, cases: list) -> dict:
    said = {}
    with tinker.ServiceClient(base_url=url) as service:
        training = service.create_lora_training_client(base_model="tiny", rank=rank, seed=1)
        assert training.get_info().is_lora == (rank > 0)
        own = service.create_custom_loss(
            own_loss, input_ranks={"logprobs": 2, "weights": 2}
        ).result(timeout=60)
        assert own.loss_id is None, "it is computed by the client"
        for number, (name, loss, settings, data) in enumerate(cases):
            if loss == "custom":
                done = training.forward_backward_custom(read(data), own).result(timeout=60)
                assert math.isclose(
                    done.metrics["custom/own:sum"], done.metrics["loss:sum"], rel_tol=1e-5
                )
            else:
                done = training.forward_backward(read(data), loss, settings or None).result(
                    timeout=60
                )
            training.save_state(f"case-{number}").result(timeout=60)
            # The first step moves the weights, so that adapters are not zero; later ones only
            # forget the gradient. With a large eps its update is smooth in the gradient, and
            # rounding of one stays rounding of the other.
            params = types.AdamParams(learning_rate=1e-2 if number == 0 else 0.0, eps=0.1)
            step = training.optim_step(params).result(timeout=60)
            outputs = [output["logprobs"] for output in done.loss_fn_outputs]
            said[name] = {
                "loss": done.metrics["loss:sum"],
                "logprobs": [[list(each.shape or [len(each.data)]), each.data] for each in outputs],
                "grad_norm": step.metrics["grad_norm"],
            }
    return said


def main(path: str) -> None:
    with open(path) as file:
        sent = json.load(file)
    print(json.dumps({url: run(url, rank, sent["cases"]) for url, rank in sent["servers"]}))


if __name__ == "__main__":
    main(sys.argv[1])
