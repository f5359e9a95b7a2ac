"""What a runtime reports of the work that it did for Tinker clients: tokens, durations, and what
the calls returned.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..base import Request

MAX_SPANS = 120  # of one report: its body has at most 1,000 names
MAX_CALLS, MAX_MEASURES, MAX_MODELS = 256, 16, 8  # of one report, of its models each, of one report
MAX_CLIENTS = 16  # of one report

Finite = Annotated[float, Field(allow_inf_nan=False)]
CallKind = Literal["forward", "forward_backward", "optim_step"]


class TokensUsed(Request):
    """Tokens of one report. Prompts that the engine had in its prefix cache are counted by
    themselves.
    """

    training: int = Field(0, ge=0, lt=2**53)
    sampling_prefill: int = Field(0, ge=0, lt=2**53)
    sampling_prefill_cached: int = Field(0, ge=0, lt=2**53)
    sampling_sample: int = Field(0, ge=0, lt=2**53)


class WorkSpan(Request):
    """Operations of one kind and of one model, or samples of one sampling session: from the begin
    of the first to the end of the last of ``count``. Unix seconds.
    """

    kind: str = Field(max_length=40)
    of: str = Field(max_length=120)
    began_at: float = Field(ge=0, allow_inf_nan=False)
    seconds: float = Field(ge=0, allow_inf_nan=False)
    count: int = Field(1, ge=1)
    tokens: int = Field(0, ge=0, lt=2**53)


class CallColumns(Request):
    """Calls of one model with their results, as columns: an entry for each call, under its
    ``seq_id``.

    ``tokens`` are those of the call's data. ``measures`` has the metrics of its result under their
    names, such as ``loss:sum``, and the ``learning_rate`` of an ``optim_step``; None where a call
    has none, or no finite one.
    """

    model_id: str = Field(max_length=120)
    seq_ids: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1, max_length=MAX_CALLS)
    kinds: list[CallKind]
    at: list[Annotated[float, Field(ge=0, lt=1e11, allow_inf_nan=False)]]  # Unix seconds
    tokens: list[Annotated[int, Field(ge=0, lt=2**53)]]
    measures: dict[Annotated[str, Field(max_length=80)], list[Finite | None]] = Field(
        max_length=MAX_MEASURES
    )

    @model_validator(mode="after")
    def _columns_are_of_one_length(self) -> "CallColumns":
        lengths = {
            len(self.kinds),
            len(self.at),
            len(self.tokens),
            *map(len, self.measures.values()),
        }
        if lengths != {len(self.seq_ids)}:
            raise ValueError("every column has as many entries as seq_ids")
        return self


class WorkReport(Request):
    """``POST /v1/runtime/tinker-work``. A report that comes again, under the same ``key``, changes
    nothing.
    """

    key: str = Field(min_length=1, max_length=80)
    tokens: dict[Annotated[str, Field(max_length=60)], TokensUsed] = Field(
        max_length=MAX_CLIENTS, description="Of each client, by its Tinker session."
    )
    spans: list[WorkSpan] = Field(max_length=MAX_SPANS)
    calls: list[CallColumns] = Field(default=[], max_length=MAX_MODELS)
