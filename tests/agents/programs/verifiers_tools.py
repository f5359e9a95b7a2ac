"""verifiers: a rollout of its tool environment."""

import os

import verifiers as vf
from datasets import Dataset
from verifiers.types import ClientConfig
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    os.environ["OURS_API_KEY"] = api_key
    environment = vf.ToolEnv(
        dataset=Dataset.from_list([{"question": QUESTION, "answer": ""}]), system_prompt=SYSTEM, tools=[get_weather],
        rubric=vf.Rubric(funcs=[lambda completion, **_: 1.0]), max_turns=6,
    )  # fmt: skip
    client = ClientConfig(api_base_url=base_url, api_key_var="OURS_API_KEY")
    results = environment.evaluate_sync(client, MODEL, num_examples=1, rollouts_per_example=1)
    return str(results["outputs"][0]["completion"])
