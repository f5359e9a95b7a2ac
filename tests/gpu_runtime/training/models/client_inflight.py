"""A program of the ``tinker`` client: two in-flight saves with a step between. Prints what the
first sampler gives.
"""

import json
import sys

import tinker
from tinker import types

PROMPT = types.ModelInput.from_ints([1, 2, 3])


def main(url: str) -> None:
    model = (
        tinker.ServiceClient(base_url=url, api_key="tml-x")
        .create_lora_training_client("tiny", rank=8)
        .result()
    )
    first = model.save_weights_and_get_sampling_client(kind="inflight").result()
    params = types.SamplingParams(max_tokens=5)
    before = first.sample(PROMPT, num_samples=1, sampling_params=params).result()
    step = model.optim_step(types.AdamParams(learning_rate=0.1)).result()
    model.save_weights_and_get_sampling_client(kind="inflight").result()
    after = first.sample(PROMPT, num_samples=1, sampling_params=params).result()
    lengths = [len(each.sequences[0].tokens) for each in (before, after)]
    print(json.dumps({"lengths": lengths, "metrics": step.metrics}))


if __name__ == "__main__":
    main(sys.argv[1])
