"""Options of sampling beyond OpenAI's own, under vLLM's names: the same in every dialect."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpu_runtime.refusals import BadRequest

MAX_STOP_TOKENS, MAX_BIASES, MAX_CHOICES = 64, 1024, 1024


class StrictOptions(BaseModel):
    """Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StructuredOutputs(StrictOptions):
    """What the answer must look like, as vLLM's ``structured_outputs`` says it: one of the kinds
    alone.
    """

    json_: dict[str, Any] | str | None = Field(None, alias="json")
    json_object: bool | None = None
    regex: str | None = Field(None, min_length=1)
    choice: (
        Annotated[
            list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MAX_CHOICES)
        ]
        | None
    ) = None
    grammar: str | None = Field(None, min_length=1)
    structural_tag: dict[str, Any] | str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [
            name
            for name, value in self.model_dump(by_alias=True).items()
            if value not in (None, False)
        ]
        if len(kinds) != 1:
            raise ValueError(
                "exactly one of json, json_object, regex, choice, grammar, structural_tag, not "
                f"{kinds}"
            )
        return self

    @field_validator("json_", "structural_tag")
    @classmethod
    def _text_is_json(cls, value: dict[str, Any] | str | None) -> dict[str, Any] | str | None:
        if isinstance(value, str):
            try:
                json.loads(value)
            except (ValueError, RecursionError):
                raise ValueError("an object, or the JSON text of one") from None
        return value

    @property
    def json_schema(self) -> str | None:
        """The JSON schema that is asked for; "{}" means any object."""
        if self.json_object:
            return "{}"
        return json.dumps(self.json_) if isinstance(self.json_, dict) else self.json_

    @property
    def tag(self) -> str | None:
        """Every other kind as a structural tag (xgrammar's documentation, "Structural Tag"); None
        for JSON.
        """
        if self.structural_tag is not None:
            given = self.structural_tag
            return given if isinstance(given, str) else json.dumps(given)
        form: dict[str, Any] | None = None
        if self.regex is not None:
            form = {"type": "regex", "pattern": self.regex}
        elif self.grammar is not None:
            form = {"type": "grammar", "grammar": self.grammar}
        elif self.choice is not None:
            texts = [{"type": "const_string", "value": text} for text in self.choice]
            form = texts[0] if len(texts) == 1 else {"type": "or", "elements": texts}
        return None if form is None else json.dumps({"type": "structural_tag", "format": form})


class TemplateOptions(StrictOptions):
    """What a request sets of the chat template; see ``template_options``."""

    chat_template_kwargs: dict[str, Any] | None = Field(None, max_length=16)


class EngineOptions(StrictOptions):
    """Bounds are the engine's. Tokens are ids of the model's vocabulary."""

    top_k: int | None = Field(None, ge=-1, le=1_000_000)
    min_p: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    frequency_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    presence_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    repetition_penalty: float | None = Field(None, gt=0, le=10, allow_inf_nan=False)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]] | None = (
        Field(None, max_length=MAX_BIASES)
    )
    min_tokens: int | None = Field(None, ge=0, le=1_000_000)
    stop_token_ids: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, max_length=MAX_STOP_TOKENS
    )
    ignore_eos: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    prompt_logprobs: int | None = Field(None, ge=0, le=20)
    thinking_budget: int | None = Field(None, ge=0, le=1_000_000)

    @field_validator("logit_bias")
    @classmethod
    def _keys_are_tokens(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        for key in value or {}:
            if not (key.isascii() and key.isdecimal() and len(key) < 10):
                raise ValueError(f"its keys are token ids, not {key[:20]!r}")
        return value

    @property
    def biases(self) -> dict[int, float]:
        """What is added to each token's logit; without those that add nothing."""
        return {int(token): bias for token, bias in (self.logit_bias or {}).items() if bias}

    def of_engine(self) -> dict[str, Any]:
        """Those that say something, as fields of SamplingOptions."""
        said: dict[str, Any] = {}
        for name in (
            "top_k",
            "min_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
        ):
            value = getattr(self, name)
            if (
                value is not None
                and value != (1 if name == "repetition_penalty" else 0)
                and value != -1
            ):
                said[name] = value
        if self.biases:
            said["logit_bias"] = self.biases
        if self.min_tokens:
            said["min_tokens"] = self.min_tokens
        if self.stop_token_ids:
            said["stop_token_ids"] = tuple(self.stop_token_ids)
        if self.prompt_logprobs is not None:
            said["prompt_logprobs"] = self.prompt_logprobs
        return said | ({"ignore_eos": True} if self.ignore_eos else {})

    def copied(self) -> dict[str, Any]:
        """The options of this class alone, as another dialect's request takes them."""
        return {
            name: value
            for name in EngineOptions.model_fields
            if (value := getattr(self, name)) is not None
        }


def check_tokens(options: EngineOptions, vocabulary: int) -> None:
    """Raises BadRequest for a token that the model does not have."""
    given: list[tuple[str, Sequence[int]]] = [("logit_bias", list(options.biases))]
    given.append(("stop_token_ids", options.stop_token_ids or []))
    for name, tokens in given:
        if wrong := [token for token in tokens if token >= vocabulary]:
            raise BadRequest(
                f"{name}: token ids are from 0 to {vocabulary - 1}, not {wrong[0]}", param=name
            )
