"""AgentScope: an agent that streams chat completions and asks before it runs a tool, unless that is
allowed.
"""

from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def play(base_url: str, api_key: str) -> str:
    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="of the test")
    model = OpenAIChatModel(OpenAICredential(api_key=api_key, base_url=base_url), MODEL)
    agent = Agent(
        "forecaster", SYSTEM, model, Toolkit([FunctionTool(get_weather, permission=allowed)])
    )
    return str((await agent.reply(UserMsg("user", QUESTION))).get_text_content())
