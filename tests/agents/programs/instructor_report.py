"""Instructor: a typed answer by a forced call; the first one breaks a rule of the type and is asked
for again.
"""

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field
from weather import MODEL, QUESTION


class Report(BaseModel):
    """The weather."""

    text: str = Field(min_length=5)


def play(base_url: str, api_key: str) -> str:
    with OpenAI(base_url=base_url, api_key=api_key, max_retries=0) as plain:
        client = instructor.from_openai(plain)
        messages = [{"role": "user", "content": QUESTION}]
        return client.chat.completions.create(
            model=MODEL, messages=messages, response_model=Report, max_retries=2
        ).text
