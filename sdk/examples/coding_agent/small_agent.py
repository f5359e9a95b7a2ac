"""mini-swe-agent by its library, in this process, with a prompt of 40 tokens in place of its own
850: for models that follow no longer one.

It reads an expression out of what the model says, has it written into the module, and tells the
model whether the tests pass. The package is imported when the first attempt begins: only this one
needs it.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

EXPRESSION = r"\A.*?\b(a [-+*/] b)\b"  # the first one
ASKS = "Write the function alone."
TRIES = 2


def work(prompt: str, module: str, repository: Path, episode) -> str:
    """How the attempt ended, in mini-swe-agent's word for it."""
    os.environ |= {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1",
    }
    import litellm
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

    class Writer(LocalEnvironment):
        def execute(self, action: dict[str, Any], cwd: str = "", **options: Any) -> dict[str, Any]:
            command = f"commands/write {shlex.quote(action['command'])}"
            return super().execute({"command": command}, cwd, **options)

    litellm.suppress_debug_info = True  # a line about the names of providers with each call
    model = LitellmTextbasedModel(
        model_name=f"openai/{episode.model}",
        model_kwargs={"api_base": episode.base_url, "api_key": episode.api_key},
        action_regex=EXPRESSION,
        observation_template="{{output.output}}" + ASKS,
        format_error_template=ASKS,
    )
    agent = DefaultAgent(
        model,
        Writer(cwd=str(repository), env={"MODULE": module, "PYTHON": sys.executable}),
        system_template="You write Python.",
        instance_template="{{task}}",
        step_limit=TRIES,
        cost_limit=0,
    )
    return str(agent.run(prompt)["exit_status"])
