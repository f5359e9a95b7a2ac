"""What the programs beside this file share: where the model is, what they ask it, and the one tool
that they have.
"""

import json
import os
import sys

BASE_URL, API_KEY, *ARGUMENTS = sys.argv[1:]
MODEL = os.environ.get("MODEL", "tiny-model")
SYSTEM = "You answer questions about the weather."
QUESTION = "What is the weather in Paris?"
SECOND_QUESTION = "And in Rome?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def weather_of(city: str) -> str:
    """What the tool answers."""
    return f"Sunny in {city}, 21 degrees."


def result_print(**values: object) -> None:
    """The last line of a program: what it heard, for the test."""
    print("\n" + json.dumps(values))
