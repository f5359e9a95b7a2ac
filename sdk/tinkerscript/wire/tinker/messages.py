"""What control plane and runtime tell each other of Tinker clients: their models, samplers and
checkpoints, which of them a runtime has something of, and the work that it did for them.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..base import Request, Response
from ..runtime import StoredFile
from .ids import CHECKPOINT_NAME

Segment = Literal["weights", "sampler_weights", "external_weights"]
MAX_RANK = 256


class LoraOptions(Request):
    """``lora_config`` of ``create_model``. Without a seed the model's number in its session is the
    seed.
    """

    rank: int = Field(ge=0, le=1024)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class ModelSource(Request):
    """A saved state that a model begins from: its files, to be read by presigned URL."""

    path: str
    checkpoint_id: str
    files: list[StoredFile]
    optimizer: bool


class ModelCreate(Request):
    """What the control plane tells a runtime of a model: its first operation."""

    model_id: str
    base_model: str
    lora: LoraOptions
    source: ModelSource | None = None
    made_before: bool = Field(
        False, description="A runtime has had it: one that does not know it lost its volume."
    )
    exact_seeds: bool = Field(
        False, description="Of samples: the client's seeds are taken as they are."
    )


class RefusedOperation(Request):
    """An operation that the control plane refused before a runtime saw it."""

    model_id: str
    seq_id: int = Field(ge=1, lt=2**31)
    message: str = Field(max_length=4000)


class SamplerCreate(Request):
    """What the control plane tells a runtime of a sampling session: the base model, or a checkpoint
    under a name.
    """

    sampling_session_id: str
    base_model: str
    model_path: str | None = None
    checkpoint_id: str | None = None
    files: list[StoredFile] = []
    exact_seeds: bool = Field(
        False, description="Of samples: the client's seeds are taken as they are."
    )


class NamedCheckpointOpen(Request):
    """``POST /v1/runtime/named-checkpoints``: a runtime is about to store what its client gave a
    name.
    """

    model_id: str
    segment: Segment
    name: str = Field(pattern=f"^{CHECKPOINT_NAME.pattern}$")
    seq_id: int = Field(0, ge=0, description="The number of the operation that saves it.")
    ttl_seconds: int | None = Field(None, ge=1)
    overwrite: bool = False
    user_metadata: dict[str, str] = {}
    lora: LoraOptions


class NamedStateFind(Request):
    """``POST /v1/runtime/named-states``: a runtime is about to load a saved state into a model that
    is there.
    """

    model_id: str
    path: str = Field(max_length=400)


class NamedState(Response):
    """The state's files, or why there are none: ``refusal`` is for the client that asked."""

    checkpoint_id: str | None = None
    files: list[StoredFile] = []
    refusal: str = ""


class NamedCheckpoint(Response):
    """Where to store it, or why not: ``refusal`` is for the client that asked."""

    checkpoint_id: str | None = None
    is_stored: bool = Field(False, description="This very operation has stored it already.")
    refusal: str = ""


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


MAX_ASKED = 500  # clients of one request


class ClientsServed(Request):
    """``POST /v1/runtime/tinker-clients``: the Tinker sessions whose models or samplers a runtime
    has.
    """

    clients: list[Annotated[str, Field(max_length=60)]] = Field(max_length=MAX_ASKED)


class ClientsOver(Response):
    """Which of them are over: their models and samplers go."""

    over: list[str]
