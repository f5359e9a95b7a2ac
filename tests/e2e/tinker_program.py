"""What a user of the ``tinker`` client writes, run as it is in an environment that has nothing of
ours.

Usage: ``tinker_program.py BASE_MODEL [RANK]``, with TINKER_BASE_URL and TINKER_API_KEY set; rank 0
trains all weights. Prints one JSON object at its end.
"""

import json
import sys

import numpy as np
import tinker
from tinker import types

TOKENS = [5, 6, 7, 8]


def datum(tokens: list[int]) -> types.Datum:
    weights = np.array([0.0] + [1.0] * (len(tokens) - 2), dtype=np.float32)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64)),
            "weights": types.TensorData.from_numpy(weights),
        },
    )


def sampled(sampler: tinker.SamplingClient, **options: object) -> list[list[int]]:
    params = types.SamplingParams(max_tokens=6, temperature=0.7, seed=42)
    answer = sampler.sample(types.ModelInput.from_ints(TOKENS), 2, params, **options).result(
        timeout=120
    )
    assert all(len(sequence.logprobs) == len(sequence.tokens) for sequence in answer.sequences)
    return [list(sequence.tokens) for sequence in answer.sequences]


def at_places(sampler: tinker.SamplingClient) -> list:
    """Tokens that are named at the places of a prompt, the prompt's own first, and tokens drawn
    there: whether the scores are those of the prompt, and the shapes.
    """
    named = types.TensorData.from_numpy(
        np.array([[token, -1, 5] for token in TOKENS[1:]], dtype=np.int64)
    )
    params = types.SamplingParams(max_tokens=1, temperature=2.0)
    answer = sampler.sample(
        types.ModelInput.from_ints(TOKENS), 1, params, include_prompt_logprobs=True, target_prompt_logprobs=named,
        prompt_alt_tokens_k=3,
    ).result(timeout=120)  # fmt: skip
    scores = answer.target_prompt_logprobs.to_numpy()
    agree = (
        np.allclose(scores[:, 0], answer.prompt_logprobs[1:], atol=1e-3) and not scores[:, 1].any()
    )
    drawn = answer.prompt_alt_tokens
    return [
        bool(agree),
        list(scores.shape),
        list(drawn.tokens.shape),
        list(drawn.logprobs.to_numpy().shape),
    ]


def too_large(training: tinker.TrainingClient) -> list[str]:
    """What comes of a call whose body is above 16 MiB; the step after it is done at once, not after
    minutes.
    """
    generator = np.random.default_rng(0)
    targets, weights = (
        generator.integers(5, 90, (300, 6000)),
        generator.random((300, 6000), dtype=np.float32),
    )
    inputs = {
        "target_tokens": types.TensorData.from_numpy(targets),
        "weights": types.TensorData.from_numpy(weights),
    }
    large = types.Datum(model_input=types.ModelInput.from_ints([5] * 300), loss_fn_inputs=inputs)
    failing = training.forward_backward([large], "cross_entropy")
    step = training.optim_step(types.AdamParams(learning_rate=0.0))
    step.result(timeout=60)
    try:
        failing.result(timeout=60)
    except tinker.RequestFailedError as error:
        return [error.category.value, str(error)]
    return []


def goes_on(
    service: tinker.ServiceClient, path: str, before: types.ForwardBackwardOutput, said: dict
) -> None:
    """A model that begins from the state, and whether it computes what the first one did."""
    again = service.create_training_client_from_state_with_optimizer(path)
    said["again"] = again.get_info().model_id
    after = again.forward([datum(TOKENS)], "cross_entropy").result(timeout=120)
    outputs = [list(result.loss_fn_outputs[0]["logprobs"].data) for result in (before, after)]
    said["same"] = outputs[0] == outputs[1]


def main(base_model: str, rank: int = 8) -> None:
    said = {}
    with tinker.ServiceClient(user_metadata={"of": "a test"}, display_name="drive") as service:
        said["models"] = [
            model.model_name for model in service.get_server_capabilities().supported_models
        ]
        training = service.create_lora_training_client(
            base_model=base_model, rank=rank, seed=3, user_metadata={"k": "v"}
        )
        info = training.get_info()
        said["info"] = [info.model_id, info.is_lora, info.lora_rank, info.model_data.model_name]
        losses = []
        for _ in range(3):
            done = training.forward_backward([datum([*TOKENS, 9]), datum(TOKENS)], "cross_entropy")
            step = training.optim_step(types.AdamParams(learning_rate=1e-2 if rank else 1e-3))
            losses.append(done.result(timeout=120).metrics["loss:sum"])
            said["step"] = step.result(timeout=120).metrics
        said["losses"] = losses
        only = training.forward([datum(TOKENS)], "cross_entropy").result(timeout=120)
        said["forward"] = [len(output["logprobs"].data) for output in only.loss_fn_outputs]
        sampler = training.save_weights_and_get_sampling_client()
        said["samples"] = sampled(sampler)
        said["prompt_logprobs"] = len(
            sampler.compute_logprobs(types.ModelInput.from_ints(TOKENS)).result(timeout=120)
        )
        said["at_places"] = at_places(sampler)
        base = service.create_sampling_client(base_model=base_model)
        said["base_samples"] = sampled(base)
        try:
            training.forward_backward([datum(TOKENS)], "no such loss").result(timeout=120)
        except tinker.RequestFailedError as error:
            said["mistake"] = [error.category.value, str(error)]
        if rank:
            said["too_large"] = too_large(training)
        state = training.save_state("first").result(timeout=120)
        saved = training.save_weights_for_sampler("first").result(timeout=120)
        said["paths"] = [state.path, saved.path]
        said["named_samples"] = sampled(service.create_sampling_client(model_path=saved.path))
        before = training.forward([datum(TOKENS)], "cross_entropy").result(timeout=120)
        if rank:
            goes_on(service, state.path, before, said)
        rest = tinker.RestClient()
        runs = rest.list_training_runs().result(timeout=60)
        said["runs"] = sorted(run.training_run_id for run in runs.training_runs)
        listed = rest.list_checkpoints(info.model_id).result(timeout=60)
        said["checkpoints"] = sorted(checkpoint.checkpoint_id for checkpoint in listed.checkpoints)
    # a model of all weights has its runtime to itself: the one that goes on from it is of another
    # session
    if not rank:
        with tinker.ServiceClient() as service:
            goes_on(service, state.path, before, said)
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
