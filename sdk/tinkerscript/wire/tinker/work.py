"""What a runtime tells the control plane of the work that it did for Tinker clients: tokens, and how long each took."""

from pydantic import Field

from ..base import Request

MAX_SPANS = 120  # of one report: its body has at most 1,000 names


class TokensUsed(Request):
    """Tokens of one report. Prompts that the engine had in its prefix cache are counted by themselves."""

    training: int = Field(0, ge=0, lt=2**53)
    sampling_prefill: int = Field(0, ge=0, lt=2**53)
    sampling_prefill_cached: int = Field(0, ge=0, lt=2**53)
    sampling_sample: int = Field(0, ge=0, lt=2**53)


class WorkSpan(Request):
    """Operations of one kind and of one model, or samples of one sampling session: from the begin of the first to the
    end of the last of ``count``. Unix seconds."""

    kind: str = Field(max_length=40)
    of: str = Field(max_length=120)
    began_at: float = Field(ge=0, allow_inf_nan=False)
    seconds: float = Field(ge=0, allow_inf_nan=False)
    count: int = Field(1, ge=1)
    tokens: int = Field(0, ge=0, lt=2**53)


class WorkReport(Request):
    """``POST /v1/runtime/tinker-work``. A report that comes again, under the same ``key``, changes nothing."""

    key: str = Field(min_length=1, max_length=80)
    tokens: TokensUsed
    spans: list[WorkSpan] = Field(max_length=MAX_SPANS)
