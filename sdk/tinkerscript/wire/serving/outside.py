"""Calls of models that stand elsewhere, for the console's playground."""

from typing import Any

from pydantic import Field

from ..base import Request, Response


class OutsideCall(Request):
    """``POST /v1/outside-calls``: one chat completion of another OpenAI-compatible endpoint."""

    base_url: str = Field(max_length=2000, description="Without /chat/completions.")
    api_key: str = Field(
        "", max_length=2000, pattern=r"^[!-~]*$", description="Sent there, and kept nowhere."
    )
    body: dict[str, Any] = Field(description="As that endpoint takes it; never streamed.")


class OutsideAnswer(Response):
    """What the endpoint returned, whether it is an answer or a refusal of its own."""

    status: int
    body: dict[str, Any]
