"""mini-swe-agent by its library, in this process, with a prompt of 40 tokens in place of its own
850: for models that follow no longer one.

It reads one of three commands out of what the model says, runs it, and tells the model whether the
tests pass. The package is imported when the first attempt begins: only this one needs it.
"""

import os
import sys
from pathlib import Path

COMMANDS = r"\b(add|subtract|multiply)\b"
ASKS = "Say add, subtract or multiply."
TRIES = 3


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

    litellm.suppress_debug_info = True  # a line about the names of providers with each call
    model = LitellmTextbasedModel(
        model_name=f"openai/{episode.model}",
        model_kwargs={"api_base": episode.base_url, "api_key": episode.api_key},
        action_regex=COMMANDS,
        observation_template="{{output.output}}" + ASKS,
        format_error_template=ASKS,
    )
    shell = {
        "MODULE": module,
        "PATH": f"commands{os.pathsep}{os.environ['PATH']}",
        "PYTHON": sys.executable,
    }
    agent = DefaultAgent(
        model,
        LocalEnvironment(cwd=str(repository), env=shell),
        system_template="You repair programs.",
        instance_template="{{task}} " + ASKS,
        step_limit=TRIES,
        cost_limit=0,
    )
    return str(agent.run(prompt)["exit_status"])
