"""DSPy: its ReAct module, which writes tools and results into a prompt of its own making."""

import dspy
from weather import MODEL, QUESTION, get_weather


def play(base_url: str, api_key: str) -> str:
    lm = dspy.LM(f"openai/{MODEL}", api_base=base_url, api_key=api_key, cache=False, num_retries=0)
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
        return dspy.ReAct("question -> answer", tools=[get_weather])(question=QUESTION).answer
