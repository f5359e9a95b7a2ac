"""mini-swe-agent: commands in a folder of its own, over LiteLLM."""

import os
import tempfile

os.environ |= {
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_CONFIGURED": "1",
}

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from weather import MODEL, QUESTION


def play(base_url: str, api_key: str) -> str:
    where = {"api_base": base_url, "api_key": api_key, "drop_params": True}
    model = LitellmModel(
        model_name=f"openai/{MODEL}", model_kwargs=where, cost_tracking="ignore_errors"
    )
    with tempfile.TemporaryDirectory() as folder:
        agent = DefaultAgent(
            model, LocalEnvironment(cwd=folder), system_template="You run commands.", instance_template="{{task}}",
            step_limit=6, cost_limit=0,
        )  # fmt: skip
        return str(agent.run(QUESTION).get("submission"))
