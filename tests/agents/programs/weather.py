"""What the programs beside this file share: the model's name, the question, and the one tool."""

import json

MODEL = "tiny-model"
SYSTEM = "You answer questions about the weather."
QUESTION = "What is the weather in Paris, and then in Rome?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {
    "name": "get_weather",
    "description": "Tell the weather of a city.",
    "parameters": PARAMETERS,
}


def get_weather(city: str) -> str:
    """Tell the weather of a city.

    Args:
        city: The name of the city.
    """
    return f"Sunny in {city}, 21 degrees."


def called(arguments: str) -> str:
    """What the tool returns for the JSON text of its arguments."""
    return get_weather(**json.loads(arguments))
