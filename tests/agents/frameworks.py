"""The outside agents of the matrix: what each is installed from, what the model says to it, and
which calls must merge.

``timelines`` are the places of the calls that continue one another, as the structure of the agent's
own conversation allows it: an agent that goes on with its messages has one timeline; one that
writes its history anew, one per call.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINAL = "Sunny in both."
ONE = ((0, 1, 2),)
Said = list[tuple[str, bool]]  # an answer, and whether a thinking model's thoughts come first


def call(name: str, **arguments: Any) -> str:
    """A tool call as the models of the matrix write it."""
    return f"<tool_call>\n{forced(name, **arguments)}"


def forced(name: str, **arguments: Any) -> str:
    """What is sampled of a call that the request leaves no choice about: its first mark stands in
    the prompt.
    """
    return f"{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


LOOP: Said = [
    (call("get_weather", city="Paris"), True),
    (call("get_weather", city="Rome"), True),
    (FINAL, True),
]
LOOP_END = ((FINAL, True),)


@dataclass(frozen=True)
class Framework:
    """An agent of another package. ``why`` says what of its own structure keeps calls from
    merging.
    """

    name: str
    program: str
    environment: str  # of tests/agents/agents.toml
    said: tuple[tuple[str, bool], ...] = tuple(LOOP)
    timelines: tuple[tuple[int, ...], ...] = ONE
    why: str = ""
    answer: str = FINAL
    # by parallel_tool_calls: an answer ends with its first call, a token early
    asks_for_one_call: bool = False
    in_suite: bool = False  # `make test-all` runs it, from the packages of `.venv`
    commands: tuple[str, ...] = ()  # other programs that it needs on this machine

    @property
    def is_node(self) -> bool:
        """Whether it is an agent in JavaScript."""
        return self.program.endswith(".mjs")


def field(name: str, value: str) -> str:
    """A field of an answer as DSPy's chat adapter reads it."""
    return f"[[ ## {name} ## ]]\n{value}\n\n"


def dspy_step(name: str, arguments: str) -> str:
    step = (
        field("next_thought", "I look.")
        + field("next_tool_name", name)
        + field("next_tool_args", arguments)
    )
    return step + "[[ ## completed ## ]]"


def browser_step(action: dict[str, Any]) -> str:
    """An answer as browser-use's schema asks for it."""
    fields = ("thinking", "evaluation_previous_goal", "memory", "next_goal")
    return json.dumps(dict.fromkeys(fields, "none") | {"action": [action]})


FRAMEWORKS = [
    Framework("openai", "openai_package", "openai", in_suite=True),
    Framework("anthropic", "anthropic_package", "anthropic", in_suite=True),
    Framework("LiteLLM", "litellm_package", "litellm"),
    Framework(
        "OpenAI Agents SDK",
        "openai_agents",
        "openai-agents",
        ((call("transfer_to_forecaster"), True), *LOOP),
        ((0,), (1, 2, 3)),
        "who hands over has other instructions and other tools",
        in_suite=True,
    ),
    Framework("LangGraph", "langgraph_react", "langgraph", in_suite=True),
    Framework("AutoGen", "autogen_agent", "autogen", in_suite=True),
    Framework(
        "smolagents",
        "smolagents_agent",
        "smolagents",
        (
            (forced("get_weather", city="Paris"), False),
            (forced("get_weather", city="Rome"), False),
            (forced("final_answer", answer=FINAL), False),
        ),
        ((0,), (1,), (2,)),
        "it writes calls into its history in words of its own",
        in_suite=True,
    ),
    Framework("LangChain", "langchain_agent", "langchain"),
    Framework(
        "LangChain, ProviderStrategy",
        "langchain_anthropic_agent",
        "langchain-anthropic",
        (*LOOP[:2], (json.dumps({"summary": FINAL}), True)),
    ),
    Framework("Deep Agents", "deepagents_agent", "deepagents"),
    Framework("Microsoft Agent Framework", "agent_framework_agent", "agent-framework"),
    Framework("pydantic-ai", "pydantic_ai_agent", "pydantic-ai"),
    Framework("CrewAI", "crewai_crew", "crewai"),
    Framework("LlamaIndex", "llama_index_agent", "llama-index"),
    Framework(
        "DSPy",
        "dspy_react",
        "dspy",
        (
            (dspy_step("get_weather", '{"city": "Paris"}'), True),
            (dspy_step("get_weather", '{"city": "Rome"}'), True),
            (dspy_step("finish", "{}"), True),
            (field("reasoning", "Both.") + field("answer", FINAL) + "[[ ## completed ## ]]", True),
        ),
        ((0,), (1,), (2,), (3,)),
        "each call is one new prompt",
    ),
    Framework(
        "Instructor",
        "instructor_report",
        "instructor",
        ((forced("Report", text="no"), False), (forced("Report", text=FINAL), False)),
        ((0, 1),),
    ),
    Framework("Haystack", "haystack_agent", "haystack"),
    Framework("Google ADK", "google_adk_agent", "google-adk"),
    Framework("Agno", "agno_agent", "agno"),
    Framework("strands", "strands_agent", "strands"),
    Framework("semantic-kernel", "semantic_kernel_agent", "semantic-kernel"),
    Framework(
        "mini-swe-agent",
        "mini_swe_agent",
        "mini-swe-agent",
        (
            (call("bash", command="echo Sunny in Paris."), True),
            (call("bash", command="echo Sunny in Rome."), True),
            (
                call("bash", command=f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {FINAL}"),
                True,
            ),
        ),
    ),
    Framework("inspect-ai", "inspect_ai_task", "inspect-ai"),
    Framework("llm", "llm_package", "llm"),
    Framework(
        "verifiers",
        "verifiers_tools",
        "verifiers",
        why="0.1: newer ones have no such tool environment",
    ),
    Framework(
        "browser-use",
        "browser_use_agent",
        "browser-use",
        (
            (browser_step({"wait": {"seconds": 0}}), False),
            (browser_step({"done": {"text": FINAL, "success": True}}), False),
        ),
        ((0,), (1,)),
        "each call has the new page in place of the one before; its frequency_penalty was set to 0, as training needs",
        commands=("chromium",),
    ),
    Framework(
        "lm-eval",
        "lm_eval_tasks",
        "lm-eval",
        ((FINAL, True), ("Snow.", True)),
        ((0,), (1,)),
        "two questions that have nothing to do with each other",
    ),
    Framework("CAMEL", "camel_agent", "camel"),
    Framework("magentic", "magentic_chain", "magentic", asks_for_one_call=True),
    Framework("mirascope", "mirascope_call", "mirascope"),
    Framework("AG2", "ag2_chat", "ag2"),
    Framework("AG2, Responses", "ag2_responses", "ag2"),
    Framework("AgentScope", "agentscope_agent", "agentscope"),
    Framework("chatlas", "chatlas_chat", "chatlas"),
    Framework(
        "Griptape",
        "griptape_agent",
        "griptape",
        tuple(
            (call("Weather_get_weather", values={"city": city}), True) for city in ("Paris", "Rome")
        )
        + LOOP_END,
    ),
    Framework("Qwen-Agent", "qwen_agent_text", "qwen-agent"),
    Framework("Qwen-Agent, raw API", "qwen_agent_raw", "qwen-agent"),
    Framework("OpenAI Agents SDK, JavaScript", "openai_agents_js.mjs", "openai-agents-js"),
    Framework(
        "OpenAI Agents SDK, JavaScript, Responses",
        "openai_agents_js_responses.mjs",
        "openai-agents-js",
    ),
    Framework("npm openai", "openai_npm.mjs", "openai-npm"),
    Framework("Vercel AI SDK, openai", "vercel_openai.mjs", "vercel"),
    Framework("Vercel AI SDK, openai-compatible", "vercel_compatible.mjs", "vercel"),
    Framework("Vercel AI SDK, anthropic", "vercel_anthropic.mjs", "vercel"),
    Framework("LangChain.js", "langchain_js.mjs", "langchain-js"),
]
PROGRAMS = Path(__file__).with_name("programs")
